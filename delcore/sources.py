"""Where training samples come from: the generator, files, folders and sets of the hub.

`--data` names "arithmetic"; a .jsonl, .json or .parquet file; a folder of such files; or a set of the hub, as
`openai/gsm8k:main` where it comes in several configurations. Folders and hub sets are read by `datasets`, which maps
them from disk; a file is held in memory. Every row is checked once on loading, and becomes a `Sample` when it is
asked for.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO, overload

from delcore._hub import open_set, what_is_beside
from delcore._mixtures import check_mixture
from delcore.arithmetic import Sample
from delcore.errors import InputError
from delcore.templates import FIELDS, Render, check_text, make_render, parse_row, trim_row

Say = Callable[[str], None]

CHUNK = 1000
"""Rows that are checked at a time."""

SUFFIXES = {".jsonl": "JSON", ".json": "JSON", ".parquet": "parquet", ".arrow": "Arrow"}
NO_DATA = {"dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json"}
"""What `datasets` writes beside the data; its `save_to_disk` writes .arrow files."""

HUB_NAME = re.compile(r"(?P<name>[\w-][\w.-]*/[\w-][\w.-]*)(:(?P<config>[\w.-]+))?")


class Rows(NamedTuple):
    """Rows in whatever form they are kept.

    Args:
        length: how many.
        where: how an error names one of them.
        chunk: those from an index up to another.
    """

    length: int
    where: Callable[[int], str]
    chunk: Callable[[int, int], Sequence[Any]]


class Samples(Sequence[Sample]):
    """Samples that are made of their rows when they are asked for.

    Raises:
        InputError: no rows, or one that cannot be used; the message names it.
    """

    def __init__(self, rows: Rows, render: Render, source: str) -> None:
        """Check the fields of every row, and let the template see one row of each shape."""
        if not rows.length:
            raise InputError(f"{source} holds no samples.")
        self._rows, self._render = rows, render
        shapes = set()
        for start in range(0, rows.length, CHUNK):
            for i, raw in enumerate(rows.chunk(start, min(start + CHUNK, rows.length)), start):
                row = parse_row(raw, rows.where(i))
                shape = (tuple(role for role, _ in row.turns), bool(row.input))
                if shape not in shapes:
                    shapes.add(shape)
                    self._sample(i)

    def __len__(self) -> int:
        """How many there are."""
        return self._rows.length

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...

    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        """The sample of one row, or a list of some."""
        found = range(len(self))[index]
        return [self._sample(i) for i in found] if isinstance(found, range) else self._sample(found)

    def _sample(self, i: int) -> Sample:
        where = self._rows.where(i)
        row = parse_row(self._rows.chunk(i, i + 1)[0], where)
        try:
            return self._render(row)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error


def load_samples(
    source: str,
    *,
    template: str = "plain",
    tokenizer: Any = None,
    split: str = "train",
    option: str = "--data",
    say: Say | None = None,
) -> Sequence[Sample] | None:
    """The samples of a source; None for "arithmetic", which is generated and never ends.

    Args:
        source: as above; a file of another suffix is read as JSONL.
        template: "plain", "alpaca" or "chat", see `delcore.templates`.
        tokenizer: whose chat template is used.
        split: of a folder or a hub set, as "test" or "train[:1000]"; a file has none.
        option: what errors call the source.
        say: told in one line which files of a folder are read as one set, or left out.

    Raises:
        InputError: no such source, or one that cannot be read or used; a row is named with its file or set.
    """
    if source == "arithmetic":
        return None
    render = make_render(template, tokenizer)
    return Samples(_find_rows(source, split, option, say), render, source)


def _find_rows(source: str, split: str, option: str, say: Say | None) -> Rows:
    folder, _, config = source.rpartition(":")
    if _exists(source, Path.is_file):
        return _read_file(Path(source))
    if _exists(source, Path.is_dir):
        return _read_folder(source, None, split, option, say)
    if folder and _exists(folder, Path.is_dir):
        return _read_folder(folder, config, split, option, say)
    hub = HUB_NAME.fullmatch(source)
    if hub and Path(source).suffix not in SUFFIXES:
        try:
            return _read_set(hub["name"], hub["config"], split, local=False)
        except InputError as error:
            if not (beside := what_is_beside(Path(source))):
                raise
            raise InputError(
                f"`{option}`: there is no file or folder {source!r}, and no such set to be had.{beside}"
            ) from error
    raise InputError(
        f'`{option}` must be "arithmetic", a .jsonl, .json or .parquet file, a folder of such files, or a set of the '
        f'hub such as "openai/gsm8k:main"; there is no file or folder {source!r}.'
    )


def _exists(name: str, test: Callable[[Path], bool]) -> bool:
    try:
        return bool(name) and test(Path(name))
    except (OSError, ValueError):  # too long a name, or a NUL in it
        return False


# ---------------------------------------------------------------- files


def _read_file(path: Path) -> Rows:
    if path.suffix == ".parquet":
        return _read_parquet(path)
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            begins_list = path.suffix == ".json" and file.read(100).lstrip().startswith("[")
            file.seek(0)
            return _read_list(file, path) if begins_list else _read_lines(file, path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as UTF-8 text: {error}.") from error


def _read_lines(file: TextIO, path: Path) -> Rows:
    """JSONL; blank lines are passed over."""
    rows, numbers = [], []
    for number, line in enumerate(file, 1):
        if line.strip():
            rows.append(trim_row(parse_json(line, f"{path}, line {number}")))
            numbers.append(number)
    return _listed(rows, lambda i: f"{path}, line {numbers[i]}")


def _read_list(file: TextIO, path: Path) -> Rows:
    """One JSON list of rows."""
    rows = [trim_row(row) for row in parse_json(file.read(), str(path))]
    return _listed(rows, lambda i: f"{path}, row {i + 1}")


def _listed(rows: list[Any], where: Callable[[int], str]) -> Rows:
    return Rows(len(rows), where, lambda start, stop: rows[start:stop])


def parse_json(text: str, where: str, *, remedy: str = "Mend or drop it.") -> Any:
    """The value of a JSON text.

    Raises:
        InputError: it is none, or holds text that cannot be used; begins with `where`, ends with `remedy`.
    """
    try:
        value = json.loads(text)
        if "\\u" in text:
            check_text(value)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}" if "\n" in text.strip() else f"column {error.colno}"
        raise InputError(f"{where}: not valid JSON ({error.msg} at {place}). {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: cannot be used ({error}). {remedy}") from error
    return value


def _read_parquet(path: Path) -> Rows:
    import pyarrow
    import pyarrow.parquet

    try:
        names = pyarrow.parquet.read_schema(path).names
        table = pyarrow.parquet.read_table(path, columns=_used(names))
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path} cannot be read as parquet: {_first_line(error)}") from error
    return Rows(
        table.num_rows,
        lambda i: f"{path}, row {i + 1}",
        lambda start, stop: table.slice(start, stop - start).to_pylist(),
    )


def _used(names: Sequence[str]) -> list[str]:
    """The columns worth reading; all where none is, for an error that names them."""
    return [name for name in names if name in FIELDS] or list(names)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]


# ---------------------------------------------------------------- folders and the hub


def _read_folder(folder: str, config: str | None, split: str, option: str, say: Say | None) -> Rows:
    """A folder of data files, such as a downloaded copy of a hub set."""
    path = Path(folder)
    files = sorted(_data_files(path))
    if not files:
        raise InputError(f"`{option}` folder {folder} holds no .jsonl, .json or .parquet files.")
    if len({SUFFIXES[file.suffix] for file in files}) > 1 and not (path / "README.md").is_file():
        raise InputError(f"`{option}` folder {folder} holds files of several kinds. Keep one kind, or name one file.")
    if config is None and not any((path / name).is_file() for name in ("README.md", "state.json", "dataset_dict.json")):
        told = check_mixture(path, files, option)
        if told and say:
            say(told)
    try:
        return _read_set(folder, config, split, local=True)
    except InputError as error:
        broken = files if "cannot be read" in str(error) else []
        for file in broken:  # `datasets` names neither file nor line
            if file.suffix == ".jsonl" and not _read_file(file).length:
                raise InputError(f"{file} holds no samples. Remove it.") from None
        raise


def _data_files(path: Path) -> Iterator[Path]:
    """Files that look like data, down to the third level; the whole disk is no data folder."""
    if path.resolve().parent == path.resolve():
        return
    for pattern in ("*", "*/*", "*/*/*"):
        for file in path.glob(pattern):
            hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
            if file.suffix in SUFFIXES and file.name not in NO_DATA and not hidden:
                yield file


def _read_set(name: str, config: str | None, split: str, *, local: bool) -> Rows:
    data = open_set(name, config, split, local=local)
    data = data.select_columns(_used(data.column_names))

    def chunk(start: int, stop: int) -> list[dict[str, Any]]:
        columns = data[start:stop]
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    return Rows(len(data), lambda i: f"{name} ({split}), row {i + 1}", chunk)
