"""Stored results of the studies are found in a checkout and in an installed package, without anything heavy."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import delcore
from delcore.checkpoints import write_json
from delcore.errors import InputError
from delcore.studies import stored
from delcore.studies.stored import CLAIMS_FILE, Claim, read_claims, read_study

ROOT = Path(delcore.__file__).parents[1]
STUDIES = ROOT / "notebooks" / "studies"
CLAIM = {
    "number": 3,
    "claim": "a",
    "test": "b",
    "result": "c",
    "verdict": "mixed",
    "link": "d",
    "figure": "e",
    "brief": "f",
}


def test_study_is_read_from_the_checkout():
    found = read_study("embeddings")
    assert found == json.loads((stored.studies_folder() / "embeddings" / "results.json").read_text(encoding="utf-8"))
    assert found["study"] == "embeddings" and found["rows"]


def test_installed_package_reads_its_own_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "__file__", str(tmp_path / "delcore" / "studies" / "stored.py"))
    write_json(tmp_path / "notebooks" / "studies" / "losses" / "results.json", {"study": "of the checkout"})
    assert read_study("losses") == {"study": "of the checkout"}
    write_json(tmp_path / "delcore" / "_studies" / "losses" / "results.json", {"study": "of the package"})
    write_json(tmp_path / "delcore" / "_studies" / CLAIMS_FILE, {"claims": [CLAIM]})
    assert read_study("losses") == {"study": "of the package"}
    assert read_claims() == [Claim(**CLAIM)]


@pytest.mark.parametrize("name", ["no_such_study", "../studies/embeddings", ""])
def test_study_that_is_not_there_is_one_line(name):
    with pytest.raises(InputError, match="no stored results|must be the name of a study") as error:
        read_study(name)
    assert "\n" not in str(error.value)


def test_missing_ledger_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "studies_folder", lambda: tmp_path)
    with pytest.raises(InputError, match="python -m delcore.studies claims"):
        read_claims()


def test_reading_stored_results_loads_nothing_heavy():
    code = (
        "import sys; from delcore.studies.stored import read_study; read_study('embeddings');"
        "print([m for m in 'torch transformers numpy scipy pandas plotly'.split() if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="delcore is not run from a checkout")
def test_wheel_is_told_of_every_result_and_of_no_weights():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    patterns = ("*.json", "*/results.json", "*/runs.csv", "*/*/delcore.json", "*/*/metrics.jsonl")
    results = [file for pattern in patterns for file in STUDIES.glob(pattern)]
    expected = {
        str(file.relative_to(ROOT)): f"delcore/_studies/{file.relative_to(STUDIES).as_posix()}" for file in results
    }
    assert {source: target for source, target in included.items() if source != "dashboard"} == expected, (
        "[tool.hatch.build.targets.wheel.force-include] in pyproject.toml must name each of them"
    )
