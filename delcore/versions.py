"""Which packages a result was made with."""

import importlib.metadata
import platform


def installed_versions(*packages: str, python: bool = True) -> dict[str, str]:
    """Versions of some packages, and of Python; "not installed" for one that is missing."""
    found = {"python": platform.python_version()} if python else {}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
