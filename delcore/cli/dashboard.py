"""`delcore dashboard`."""

import argparse
import contextlib
import importlib
import logging
import socket
import sys
from pathlib import Path
from typing import Any

from delcore.errors import InputError
from delcore.workshop import start_workshop

WORKSHOP_FLAGS = {"server.maxMessageSize": 20, "server.maxUploadSize": 1, "client.toolbarMode": "viewer"}
"""What keeps a single visitor small: megabytes of one message, and of an upload, of which no page has any."""


def add_dashboard(commands: Any) -> None:
    """`delcore dashboard`."""
    parser = commands.add_parser("dashboard", help="open the dashboard in a browser")
    parser.add_argument("--host", default="localhost", help="address to serve on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8501, help="port to serve on (default: %(default)s)")
    parser.add_argument("--headless", action="store_true", help="serve only, open no browser")
    parser.add_argument(
        "--workshop",
        action="store_true",
        help="for many visitors: read-only, the embedded models only, no folders and no hub; opens no browser",
    )
    parser.set_defaults(run=_run_dashboard)


def dashboard_app() -> Path:
    """The dashboard's main script: inside an installed package, or beside it in a checkout."""
    here = Path(__file__).resolve().parent.parent
    for folder in (here / "_dashboard", here.parent / "dashboard"):
        if (folder / "streamlit_app.py").is_file():
            return folder / "streamlit_app.py"
    raise InputError("The dashboard's files are missing from this installation. Install delcore again.")


def _run_dashboard(arguments: argparse.Namespace) -> None:
    check_port(arguments.host, arguments.port)
    app = dashboard_app()
    if arguments.workshop:
        start_workshop()
        _load_ahead(app)
    from streamlit.web import cli as streamlit_cli

    flags = {
        "server.address": arguments.host,
        "server.port": arguments.port,
        "server.headless": str(arguments.headless or arguments.workshop).lower(),
        "server.showEmailPrompt": "false",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        "logger.hideWelcomeMessage": "true",  # and with it the advertisements, in the terminal and over the pages
        "client.showErrorDetails": "none",
        "runner.magicEnabled": "false",
    }
    flags |= WORKSHOP_FLAGS if arguments.workshop else {}
    command = ["run", str(app), *(f"--{name}={value}" for name, value in flags.items())]
    sys.stderr.write(f"The dashboard: {describe_address(arguments.host, arguments.port)}. Ctrl+C stops it.\n")
    streamlit_cli.main(command, prog_name="streamlit", standalone_mode=False)


def _load_ahead(app: Path) -> None:
    """Load the models into the cache that the pages will find, so that no visitor has to wait for them.

    Streamlit puts the app's folder on the path too, so the pages import this very module.
    """
    sys.path.insert(0, str(app.parent))
    sys.stderr.write("Loading the embedded models …\n")
    logging.disable(logging.WARNING)  # Streamlit remarks on every cached function that no server runs yet
    try:
        importlib.import_module("cache").load_ahead()
    finally:
        logging.disable(logging.NOTSET)


def describe_address(host: str, port: int) -> str:
    """Where browsers find it; of a server that listens everywhere, on this machine and from others of its network."""
    if host not in ("0.0.0.0", "::"):
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"
    others = [f"http://{address}:{port}" for address in network_addresses()]
    seen = " or ".join(others) or f"port {port} of this machine's address, which the system does not tell"
    return f"http://localhost:{port}; from other machines {seen}"


def network_addresses() -> list[str]:
    """This machine's IPv4 addresses: the one its way out has, and those of its name."""
    found: list[str] = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing; without a way out, as on a lone switch, it fails
        found.append(probe.getsockname()[0])
    with contextlib.suppress(OSError):
        found += [str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    return [address for address in dict.fromkeys(found) if not address.startswith("127.")]


def check_port(host: str, port: int) -> None:
    """Refuse an address that cannot be served on, before the server starts."""
    if not 0 < port < 65536:
        raise InputError(f"`--port` must lie in [1, 65535]; got {port}.")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, UnicodeError) as error:  # a host name that is none cannot even be encoded
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Cannot serve on {host}:{port}: {reason}. Pass another --port or --host.") from error
