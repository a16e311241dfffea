"""The switch of a workshop's server, and what the command makes of it."""

import os

import pytest

from delcore import cli
from delcore.cli.dashboard import WORKSHOP_FLAGS
from delcore.errors import InputError
from delcore.workshop import VARIABLE, is_workshop, refuse_in_workshop, start_workshop


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.delenv(VARIABLE, raising=False)
    yield
    os.environ.pop(VARIABLE, None)  # what `start_workshop` has set


@pytest.mark.parametrize(("value", "expected"), [(None, False), ("", False), ("0", False), ("1", True), ("yes", True)])
def test_switch_is_a_variable_of_the_server(monkeypatch, value, expected):
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    assert is_workshop() is expected


def test_start_forbids_names_and_the_hub():
    refuse_in_workshop("Folders")
    start_workshop()
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    with pytest.raises(InputError, match="Folders are not open to visitors"):
        refuse_in_workshop("Folders")


@pytest.mark.parametrize("asked", [True, False])
def test_command_starts_the_server_it_was_asked_for(monkeypatch, asked):
    started, loaded = [], []
    monkeypatch.setattr("streamlit.web.cli.main", lambda command, **options: started.append(command))
    monkeypatch.setattr("delcore.cli.dashboard._load_ahead", lambda app: loaded.append(is_workshop()))
    monkeypatch.setattr("delcore.cli.dashboard.check_port", lambda host, port: None)
    assert cli.main(["dashboard", "--headless", *(["--workshop"] if asked else [])]) == 0
    assert is_workshop() is asked and loaded == ([True] if asked else [])
    flags = {flag for flag in started[0] if flag.startswith("--")}
    for name, value in WORKSHOP_FLAGS.items():
        assert (f"--{name}={value}" in flags) is asked
    assert "--server.headless=true" in flags
