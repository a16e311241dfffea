"""The two exceptions of this package: bad input, and a run that was told to stop."""


class InputError(ValueError):
    """Something a user passed cannot be used; the message is one line that names it and the remedy.

    The command line prints it without a traceback and exits with 2. Library callers may catch it as
    `ValueError`.
    """


class StoppedError(Exception):
    """A run was ended by a signal, its argument, and is saved as far as it came."""
