"""The README's code runs as it stands, and its commands exist."""

import re
import shlex
from pathlib import Path

import pytest
import torch
from transformers import Trainer

from delcore.cli import build_parser
from tests.models_for_tests import tiny_model
from tests.test_trainers import ROWS, TOKENIZER, collate_rows, settings

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
COMMANDS = [line for language, code in BLOCKS if language == "bash" for line in code.splitlines() if line]


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_readme_python_block_runs(number, tmp_path):
    window = [collate_rows(ROWS[:4]), collate_rows(ROWS[4:8])]
    names = {
        "model": tiny_model(),
        "tokenizer": TOKENIZER,
        "window": window,
        "batch": window[0],
        "Trainer": Trainer,
        "args": settings(tmp_path, max_steps=1),
        "data": ROWS,
        "collate": collate_rows,
    }
    for earlier in PYTHON[1:number]:  # the first block stands alone; the others build on one another
        exec(earlier, names)  # noqa: S102 - our own README
    exec(PYTHON[number], names)  # noqa: S102
    if "trainer" in names:
        names["trainer"].train()
    else:
        assert torch.isfinite(names["loss"].total)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("delcore ")])
def test_readme_delcore_command_parses(command):
    build_parser().parse_args(shlex.split(command, comments=True)[1:])


def test_readme_names_the_three_lines():
    assert [line.split("#")[0].strip() for line in COMMANDS[:3]] == [
        "pip install -e . && delcore dashboard",
        'pip install -e ".[dev]" && pytest',
        "jupyter lab notebooks",
    ]


def test_readme_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)h#][^)]*)\)", README.read_text(encoding="utf-8"))
    assert [target for target in targets if not (README.parent / target).exists()] == []
