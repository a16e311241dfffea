"""The one switch of a workshop's server: many visitors, listed models only, no paths, no hub.

It is a variable of the server's own environment, set by `delcore dashboard --workshop`. No address and no widget of a
page can reach it, and what it forbids is refused where models and folders are read, not only hidden on the pages.
"""

import os

from delcore.errors import InputError

VARIABLE = "DELCORE_WORKSHOP"


def is_workshop() -> bool:
    """Whether this server was started for a workshop."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


def start_workshop() -> None:
    """Make this process, and what it starts, a workshop's server; the hub is not asked for anything."""
    os.environ |= {VARIABLE: "1", "HF_HUB_OFFLINE": "1"}


def refuse_in_workshop(what: str) -> None:
    """Refuse what a visitor names, before anything is read.

    Args:
        what: it was, as "Other models" or "Folders".

    Raises:
        InputError: this is a workshop's server.
    """
    if is_workshop():
        raise InputError(f"{what} are not open to visitors of a workshop. Start the dashboard on your own machine.")
