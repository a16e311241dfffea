"""Fixtures that several test modules share."""

import jaxtyping
import pytest


@pytest.fixture
def no_type_checks(monkeypatch):
    """Users run delcore without the type checks that the test run adds, and see its own errors."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
