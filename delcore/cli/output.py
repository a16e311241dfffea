"""What commands print: results on standard output, all else on standard error."""

import sys

from delcore._panels import LOOKS

LOSS_NAMES = tuple(name for name in LOOKS if name != "base")
"""Keys of `delcore.losses.LOSSES`, which a help text must not wait for: it loads torch."""


def print_text(text: str) -> None:
    """Write and flush, so that a reader that has left is noticed here; letters that cannot be shown are escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    sys.stdout.flush()


def say(line: str) -> None:
    """Write a line of progress on standard error."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
