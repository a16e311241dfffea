"""The one exception for bad input: a sentence that names what is wrong and what to do."""


class InputError(ValueError):
    """Something a user passed cannot be used; the message is one line that names it and the remedy.

    The command line prints it without a traceback and exits with 2. Library callers may catch it as
    `ValueError`.
    """
