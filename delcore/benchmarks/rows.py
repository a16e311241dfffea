"""Rows of benchmark files and of benchmark sets on the hub; what is not as it should be is named with its line."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from delcore._hub import open_set
from delcore.errors import InputError
from delcore.sources import parse_json

REMEDY = "The file may be cut or changed; fetch it again."


class Row(NamedTuple):
    """One row of a benchmark.

    Args:
        fields: name to value.
        where: how an error names it.
    """

    fields: Mapping[str, Any]
    where: str


class HubSet(NamedTuple):
    """Where a benchmark lies on the hub.

    Args:
        name: of the set.
        configs: its configurations, one after the other.
        split: as `datasets` writes it, such as "train+test".
    """

    name: str
    configs: tuple[str | None, ...]
    split: str = "test"


def read_file(path: Path) -> Iterator[Row]:
    """The rows of a .jsonl file, one a line, or of a .json file, which holds one list.

    Raises:
        InputError: no such file, no UTF-8, an empty or cut line, no list, or a row that is no object.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path} does not exist. Check `--data-dir`.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as UTF-8 text: {error}. {REMEDY}") from error
    for value, where in _lines(text, path) if path.suffix == ".jsonl" else _list(text, path):
        if not isinstance(value, dict):
            raise InputError(f"{where}: must be a JSON object; got {type(value).__name__}. {REMEDY}")
        yield Row(value, where)


def _lines(text: str, path: Path) -> Iterator[tuple[Any, str]]:
    lines = text.split("\n")  # not `splitlines`: U+2028 may stand inside a JSON text
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise InputError(f"{path} is empty. {REMEDY}")
    for number, line in enumerate(lines, 1):
        where = f"{path}, line {number}"
        if not line.strip():
            raise InputError(f"{where}: empty. {REMEDY}")
        yield parse_json(line, where, remedy=REMEDY), where


def _list(text: str, path: Path) -> Iterator[tuple[Any, str]]:
    if not text.strip():
        raise InputError(f"{path} is empty. {REMEDY}")
    rows = parse_json(text, str(path), remedy=REMEDY)
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path} must hold a JSON list of rows. {REMEDY}")
    for number, row in enumerate(rows, 1):
        yield row, f"{path}, row {number}"


def how_to_fetch(source: HubSet, folder: str = "FOLDER") -> str:
    """The command that makes a copy of a set where `--data-dir` finds it."""
    copy = f"{folder}/{source.name.split('/')[1]}"
    return f"fetch it with `hf download {source.name} --repo-type dataset --local-dir {copy}`"


def read_hub(source: HubSet, file: str, copy: Path | None = None) -> Iterator[Row]:
    """The rows of a set of the hub.

    Args:
        source: the set.
        file: name of the file that its authors published, for errors.
        copy: folder with a downloaded copy, in place of the hub.

    Raises:
        InputError: it cannot be fetched or read; the message says why, and what to give as `--data-dir`.
    """
    for config in source.configs:
        place = f"{copy or source.name}, {config or 'its one configuration'} ({source.split})"
        remedy = (
            f"Where there is a network {how_to_fetch(source)}; or put {file} into FOLDER. Then give --data-dir FOLDER."
        )
        try:
            data = open_set(str(copy or source.name), config, source.split, local=copy is not None, remedy=remedy)
        except InputError as error:
            raise InputError(
                f"{error} {remedy}" if remedy not in str(error) and copy is None else str(error)
            ) from error
        for number, fields in enumerate(data, 1):
            yield Row(fields, f"{place}, row {number}")
