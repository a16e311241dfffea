"""What the studies found, stored beside the notebooks or in the installed package; reading it loads nothing heavy."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delcore.errors import InputError

CLAIMS_FILE = "claims.json"
VERDICTS = ("agrees", "mixed", "differs", "not separated", "not tested at this scale", "not run")

SOLVED = ("integers", "decimals")
"""Groups of rows whose answers follow from the text; the others are drawn from a law."""


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, and what came out here.

    Args:
        number: 1 to 10.
        claim: in one sentence.
        test: what was done.
        result: numbers with their 95 % intervals, seeds and budget, as text.
        verdict: one of `VERDICTS`.
        link: notebook and heading, from the folder `notebooks`.
        figure: what shows it: a study and a measure of its rows ("losses:gap_nats"), "embeddings:similarity", or the
            analysis "places" or "criteria".
        brief: the one or two comparisons that show the verdict, as text.
    """

    number: int
    claim: str
    test: str
    result: str
    verdict: str
    link: str
    figure: str
    brief: str


def read_study(name: str) -> dict[str, Any]:
    """The stored results of one study.

    Args:
        name: such as "losses"; its folder under notebooks/studies.

    Raises:
        InputError: there are none by this name.
    """
    if not re.fullmatch(r"\w+", name):
        raise InputError(f"`name` must be the name of a study, such as losses; got {name!r}.")
    found: dict[str, Any] = _read(f"{name}/results.json", f"python -m delcore.studies {name} --help")
    return found


def read_claims() -> list[Claim]:
    """The ledger of claims, in order.

    Raises:
        InputError: it is not there.
    """
    found = _read(CLAIMS_FILE, "python -m delcore.studies claims --out notebooks/studies")
    return [Claim(**claim) for claim in found["claims"]]


def studies_folder() -> Path:
    """Where stored results lie: within the installed package, or notebooks/studies of a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "_studies"
    return installed if installed.is_dir() else package.parent / "notebooks" / "studies"


def _read(file: str, command: str) -> Any:
    path = studies_folder() / file
    if not path.is_file():
        raise InputError(f"There are no stored results {file}; `{command}` makes them.")
    return json.loads(path.read_text(encoding="utf-8"))
