"""Fixtures that several test modules share, and how many threads a worker of pytest-xdist takes."""

import os
import signal

import jaxtyping
import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)  # a run begun in the background ignores what tests send

if "PYTEST_XDIST_WORKER" in os.environ:  # every core has a worker already; before torch is loaded
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_runtest_setup(item):
    """Without Chromium no test in the browser."""
    from tests.screenshots import CHROMIUM

    if item.get_closest_marker("browser") and not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing: apt-get install chromium")


@pytest.fixture
def no_type_checks(monkeypatch):
    """Users run delcore without the type checks that the test run adds, and see its own errors."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def empty_caches(monkeypatch):
    """No test meets what another one left; the app's folder is on the path, as Streamlit puts it."""
    import streamlit as st

    from delcore.workshop import VARIABLE
    from tests.pages_for_tests import APP

    monkeypatch.syspath_prepend(str(APP.parent))
    monkeypatch.delenv(VARIABLE, raising=False)
    st.cache_data.clear()
    st.cache_resource.clear()
    yield
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture
def fake_models(monkeypatch):
    """A family that is never loaded: `loads` counts, and the top digit of a prompt is its length mod 10."""
    from delcore.models import LoadedModel
    from tests.pages_for_tests import fake_position

    loads = []

    def load(name):
        loads.append(name)
        return LoadedModel(model=None, tokenizer=None, card=None)

    def ask(prompt, models, *, all_positions=False, continuation=""):
        digits = [c for c in prompt + continuation if c in "0123456789"]
        return {
            "prompt": prompt,
            "positions": [fake_position(i, text, models, len(prompt)) for i, text in enumerate([*digits, ""])],
        }

    monkeypatch.setattr("delcore.models.load_model", load)
    monkeypatch.setattr("delcore.probe.probe", ask)
    monkeypatch.setattr("delcore.probe.continue_greedily", lambda model, tokenizer, prompt: "42 ok")
    return loads


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a tiny model that reads 128 tokens."""
    from tests.models_for_tests import save_tiny

    return save_tiny(tmp_path_factory.mktemp("model") / "tiny", context=128)


@pytest.fixture(scope="module")
def family():
    """The eight embedded models by their names."""
    from delcore.models import EMBEDDED_NAMES, load_model

    return {name: load_model(f"embedded:{name}") for name in EMBEDDED_NAMES}


@pytest.fixture(scope="module")
def server():
    """A running dashboard."""
    from tests.screenshots import serve

    with serve() as running:
        yield running


@pytest.fixture(scope="module")
def chromium():
    """A headless browser."""
    from tests.screenshots import browser

    with browser() as running:
        yield running
