"""Folders of data files that would be read as one set: what is told of them, and which are refused.

`datasets` tells splits by words between signs: train.jsonl, data_test-0.jsonl, test/part.jsonl. Where no name has such
a word it takes all files for training; where some have, it leaves out the others.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from delcore.errors import InputError

_KNOWN = re.compile(
    r"(?<![A-Za-z])(?:train(?:ing)?|test(?:ing)?|eval(?:uation)?|valid(?:ation)?|val|dev)(?![A-Za-z])", re.IGNORECASE
)
_MEANT = re.compile(r"train|test|valid|eval|held[-_]?out", re.IGNORECASE)
"""A split that a person reads in a name, though `datasets` does not."""


def check_mixture(folder: Path, files: Sequence[Path], option: str) -> str:
    """What is to be said of a folder's files, in one line; empty if nothing.

    Args:
        folder: without a README.md that would tell its configurations.
        files: its data files.
        option: what errors call it.

    Raises:
        InputError: files of several subfolders, or of several splits that `datasets` would not see.
    """
    names = [file.relative_to(folder).as_posix() for file in files]
    unseen = [name for name in names if not _KNOWN.search(name)]
    meant = {match[0].lower() for name in unseen if (match := _MEANT.search(name))}
    if len(meant) > 1:
        raise InputError(
            f"`{option}` folder {folder} mixes splits that would be read as one: {_some(names)}. Name one file, or let "
            "the names tell the split, as train.jsonl and test.jsonl do."
        )
    if len({_home(file) for file in files}) > 1:
        raise InputError(
            f"`{option}` folder {folder} holds several sets that would be read as one: {_some(names)}. Name the folder "
            "of one of them."
        )
    if len(unseen) == len(names) > 1:
        return f"{folder}: the rows of {len(names)} files are taken together: {_some(names)}."
    return f"{folder}: left out, as their names tell no split: {_some(unseen)}." if 0 < len(unseen) < len(names) else ""


def _home(file: Path) -> Path:
    """The folder of a file, or the one above where that is named after a split."""
    return file.parent.parent if _KNOWN.fullmatch(file.parent.name) else file.parent


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
