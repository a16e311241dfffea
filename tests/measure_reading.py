"""How often what models wrote is read as people read it.

python -m tests.measure_reading [--labelled tests/data/labelled_outputs.jsonl]

Prints, for each set of labelled outputs, the share read right with its 95 % Wilson interval, then every disagreement.
"stated" is the strict reading and "last" the flexible one. The rules were mended on the set "first".
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from delcore.answers import Reading, equal_answers
from delcore.benchmarks.readers import LETTERS
from delcore.benchmarks.scoring import read_output
from delcore.intervals import Interval, wilson_interval

LABELLED = Path(__file__).parent / "data" / "labelled_outputs.jsonl"
KINDS_OF_READING = ("stated", "last")


def load_labelled(path: Path = LABELLED) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def read_labelled(row: Mapping[str, Any]) -> Reading:
    return read_output(row["kind"], row["output"], LETTERS[: row["options"]], cut=row["cut"])


def find_disagreements(labelled: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for row in labelled:
        for reading, read in zip(KINDS_OF_READING, read_labelled(row), strict=True):
            if not is_same(row["kind"], read, row[reading]):
                found.append({**row, "reading": reading, "read": read})
    return found


def is_same(kind: str, one: str | None, other: str | None) -> bool:
    return (one is None and other is None) or equal_answers(kind, one, other)


def measure_shares(labelled: Sequence[Mapping[str, Any]]) -> dict[str, Interval]:
    wrong = [row["reading"] for row in find_disagreements(labelled)]
    count = len(labelled)
    return {reading: wilson_interval(count - wrong.count(reading), count) for reading in KINDS_OF_READING}


def write_shares(labelled: Sequence[Mapping[str, Any]]) -> None:
    for reading, share in measure_shares(labelled).items():
        right = round(share.mean * share.count)
        low, high = 100 * (share.low or 0), 100 * (share.high or 0)
        sys.stdout.write(f"  {reading}: {right}/{share.count} = {100 * share.mean:.1f} % ({low:.1f}-{high:.1f})\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labelled", type=Path, default=LABELLED)
    labelled = load_labelled(parser.parse_args().labelled)
    for name in sorted({row["set"] for row in labelled}):
        rows = [row for row in labelled if row["set"] == name]
        sys.stdout.write(f"{name}\n")
        write_shares(rows)
        for row in find_disagreements(rows):
            label, end = row[row["reading"]], row["output"][-100:]
            sys.stdout.write(
                f"  {row['id']} {row['kind']} {row['reading']}: {label!r}, read {row['read']!r}: {end!a}\n"
            )


if __name__ == "__main__":
    main()
