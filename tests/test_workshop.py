"""The switch of a workshop's server, and what the command makes of it."""

import os
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from delcore import cli
from delcore.cli.dashboard import WORKSHOP_FLAGS, addresses
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
    assert {"--server.headless=true", "--logger.hideWelcomeMessage=true"} <= flags


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", ["http://localhost:8501"]), ("::1", ["http://[::1]:8501"]), ("10.0.0.7", ["http://10.0.0.7:8501"])],
)
def test_addresses_of_one_host_are_that_host(host, expected):
    assert addresses(host, 8501) == expected


def test_addresses_of_a_server_that_listens_everywhere_include_the_networks(monkeypatch):
    opened = MagicMock()
    opened.return_value.__enter__.return_value.getsockname.return_value = ("10.1.2.3", 5)
    monkeypatch.setattr("socket.socket", opened)
    assert addresses("0.0.0.0", 80) == ["http://localhost:80", "http://10.1.2.3:80"]
    opened.side_effect = OSError
    assert addresses("::", 80) == ["http://localhost:80"]


def test_no_advertisement_is_shown_beside_the_pages(monkeypatch):
    from streamlit import config
    from streamlit.web import skills

    monkeypatch.setattr(skills, "agent_harness_present", lambda: True)
    monkeypatch.setattr(skills, "_nudge_dismissed_marker_path", lambda: Path("no such file"))
    monkeypatch.setattr(config, "get_option", {"server.headless": False, "logger.hideWelcomeMessage": True}.get)
    assert not skills.should_show_skills_nudge()
