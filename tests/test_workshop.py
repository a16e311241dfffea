"""The switch of a workshop's server, and what the command makes of it."""

import os
from unittest.mock import MagicMock

import pytest

from delcore import cli
from delcore.cli.dashboard import WORKSHOP_FLAGS, describe_address
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
    [("localhost", "http://localhost:8501"), ("::1", "http://[::1]:8501"), ("10.0.0.7", "http://10.0.0.7:8501")],
)
def test_address_of_one_host_is_that_host(host, expected):
    assert describe_address(host, 8501) == expected


@pytest.mark.parametrize(
    ("way_out", "by_name", "told"),
    [
        ("10.1.2.3", ["127.0.1.1"], "from other machines http://10.1.2.3:80"),
        ("10.1.2.3", ["10.1.2.3", "192.168.4.1"], "from other machines http://10.1.2.3:80 or http://192.168.4.1:80"),
        (None, ["192.168.4.1"], "from other machines http://192.168.4.1:80"),
        (None, [], "from other machines port 80 of this machine's address, which the system does not tell"),
    ],
)
def test_address_of_a_server_that_listens_everywhere_includes_the_networks(monkeypatch, way_out, by_name, told):
    opened = MagicMock(side_effect=None if way_out else OSError)
    opened.return_value.__enter__.return_value.getsockname.return_value = (way_out, 5)
    monkeypatch.setattr("socket.socket", opened)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: [(2, 1, 6, "", (address, 0)) for address in by_name])
    assert describe_address("0.0.0.0", 80) == f"http://localhost:80; {told}"


def test_no_advertisement_is_shown_beside_the_pages(monkeypatch):
    """The flag that the command sets is one for which Streamlit holds it back."""
    from streamlit import config
    from streamlit.web import skills

    monkeypatch.setattr(config, "get_option", {"server.headless": False, "logger.hideWelcomeMessage": True}.get)
    assert skills.nudge_suppression_reason() == "welcome_hidden"
