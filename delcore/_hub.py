"""The Hugging Face hub: whether it can be asked, and sets of data opened by `datasets`, kept quiet and explained."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from delcore.errors import InputError


def hub_reachable() -> bool:
    """Whether it is worth asking the hub: without a network its clients would retry for half a minute."""
    import urllib.parse
    import urllib.request  # with http and email, a third of what `delcore --help` would load

    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if urllib.request.getproxies():
        return True  # a direct connection would prove nothing
    address = urllib.parse.urlsplit(constants.ENDPOINT)
    try:
        socket.create_connection((address.hostname, address.port or 443), timeout=3).close()
    except OSError:
        return False
    return True


def what_is_beside(path: Path) -> str:
    """Names in the folder in which something is missing, for an error; empty where it is not a folder of its own."""
    try:
        if path.parent in (Path(), Path("/")) or not path.parent.is_dir():
            return ""
        names = sorted(file.name for file in path.parent.iterdir() if not file.name.startswith("."))
    except OSError:
        return ""
    shown = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    return f" {path.parent} holds {shown or 'nothing'}."


def error_chain(error: BaseException | None) -> list[BaseException]:
    """An error and what caused it, outermost first."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


# ---------------------------------------------------------------- sets of data


def open_set(name: str, config: str | None, split: str, *, local: bool = False, remedy: str = "") -> Any:
    """Whatever `datasets` can open: a folder, or a set of the hub or of its cache.

    Args:
        name: of the folder or the set.
        config: one of its configurations.
        split: as `datasets` writes it.
        local: it is a folder.
        remedy: what an error tells to do where the hub cannot be reached.

    Raises:
        InputError: why it cannot be opened, and what to do.
    """
    try:
        import datasets
    except ImportError:
        raise InputError(f"Reading {name} needs a package more: pip install datasets") from None
    saved = [folder for folder in (Path(name), Path(name, split)) if local and (folder / "state.json").is_file()]
    try:
        with _quiet_datasets(datasets, local=local):
            if saved:  # by `save_to_disk`
                return datasets.load_from_disk(str(saved[0]))
            return datasets.load_dataset(name, config, split=split)
    except Exception as error:  # whatever the parser of a format raises
        raise InputError(_explain_set_error(error, name, config, split, remedy)) from error


@contextmanager
def _quiet_datasets(datasets: Any, *, local: bool) -> Iterator[None]:
    """Keep its log to itself, show progress only of what may take long, and ask no hub that cannot be reached."""
    level, offline = datasets.logging.get_verbosity(), datasets.config.HF_HUB_OFFLINE
    bars = not datasets.are_progress_bars_disabled()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    if local:
        datasets.disable_progress_bars()
    datasets.config.HF_HUB_OFFLINE = local or offline or not hub_reachable()
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = offline
        datasets.logging.set_verbosity(level)
        if bars:
            datasets.enable_progress_bars()


EXPLANATIONS = (
    (
        "Config name is missing|Please specify which configuration",
        "{name} comes in several configurations: {choices}. Name one, as in `--data {name}:{first}`.",
    ),
    ("BuilderConfig .* not found|configs in the cache", "{name} has no configuration {config!r}; it has {choices}."),
    ("Unknown split", "{name} has no split {split!r}; it has {choices}. Name one with --split."),
    (
        "GatedRepoError|is a gated dataset",
        "{name} is gated: ask for access on its page at the hub, then log in with `hf auth login`.",
    ),
    (
        "Dataset scripts are no longer supported",
        "{name} brings a Python script to read it, which is not run. Use a copy of it in JSONL or parquet.",
    ),
    (
        "OfflineModeIsEnabled|Couldn't reach|ConnectionError|ConnectError|Timeout",
        "{name} is not on this machine, and the hub cannot be reached. {remedy}",
    ),
    (
        "DatasetNotFoundError|RepositoryNotFoundError",
        "There is no set {name!r} on the hub that you may read, and no file or folder of that name here. "
        "Check the spelling; a private one needs `hf auth login`.",
    ),
    (
        "EmptyDatasetError|DataFilesNotFoundError",
        "{name} holds no data files that can be read. Folder names with [ ] * or ? hide them; rename such a folder.",
    ),
)
"""What `datasets` says, as a pattern, and what is said here."""

CHOICES = re.compile(
    r"(?:configs: |configs in the cache: |Available: |one of |configurations in the cache: )\[?([^\]\n]+)"
)
"""The names that it offers, in brackets or not."""


FETCH = (
    "Fetch it where there is a network with `hf download {name} --repo-type dataset --local-dir FOLDER`, and give that "
    "folder."
)


def _explain_set_error(error: Exception, name: str, config: str | None, split: str, remedy: str = "") -> str:
    """One line that says why `datasets` could not open a folder or a set of the hub, and what to do.

    Args:
        error: what it raised.
        name: of the set or folder.
        config: its configuration, if one was named.
        split: as it was asked for.
        remedy: what to do where the hub cannot be reached; the usual one if empty.
    """
    chain = error_chain(error)
    text = "\n".join(f"{type(cause).__name__}: {cause}" for cause in chain)
    listed = CHOICES.search(text)
    choices = listed[1].replace("'", "")[:300] if listed else "others"
    words = {"name": name, "config": config, "split": split, "choices": choices, "first": choices.split(",")[0]}
    words["remedy"] = remedy or FETCH.format(name=name)
    for pattern, answer in EXPLANATIONS:
        if re.search(pattern, text):
            return answer.format(**words)
    return f"{name} cannot be read: {' '.join(text.split())[:300]}"
