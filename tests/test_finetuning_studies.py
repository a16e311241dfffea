"""The fine-tuning and embedding studies: variants, tables worked by hand, and a small run of each."""

import csv
import dataclasses
import json
import re

import numpy as np
import pytest

from delcore import LOSSES, equilibrium
from delcore.analysis import equilibrium_gaps
from delcore.analysis.records import entropy_nats
from delcore.arithmetic import LAWS, READINGS, Sample, is_heldout
from delcore.checkpoints import write_json
from delcore.evaluate import ReadingMeasure
from delcore.models import load_model
from delcore.studies import finetuning, variants
from delcore.studies.__main__ import main
from delcore.studies.embeddings import measure_order
from delcore.studies.finetuning import (
    ABLATIONS,
    ALPHAS,
    MATCHED,
    STUDIES,
    alpha_variants,
    goal_of,
    loss_variants,
    measure_pulls,
)
from delcore.studies.variants import (
    PROBLEMS,
    Budget,
    Variant,
    draw_problems,
    flatten_run,
    run_variant,
    tabulate_runs,
    variant_config,
)
from tests.models_for_tests import tiny_loaded


def made_up(variant, seed, gap, accuracy=0.5):
    readings = [ReadingMeasure("a", place, 1.0, "flat", 2.0, 2.0 + gap * (1 + (place < 0)), 0.1, 0.9, 3.0)
                for place in (0, -1)]  # fmt: skip
    return {
        "variant": variant,
        "seed": seed,
        "readings": [dataclasses.asdict(reading) for reading in readings],
        "problems": {"integers": {"accuracy": accuracy}},
        "heldout": {"tokens": 15.0, "digits": 10.0},
        "seconds": {"train": 1.0, "measure": 0.5},
    }


# ---------------------------------------------------------------- tables


def test_run_is_flattened_with_integers_and_decimals_apart():
    flat = flatten_run(made_up("mle", 2, -0.2))
    assert flat["reading integers", "gap_nats"] == pytest.approx(-0.2)
    assert flat["reading decimals", "gap_nats"] == pytest.approx(-0.4)
    assert flat["readings", "gap_nats"] == pytest.approx(-0.3)
    assert flat["integers", "accuracy"] == 0.5 and flat["readings", "mass"] == pytest.approx(0.9)


def test_differences_are_paired_by_seed():
    runs = [made_up("mle", 2, 0.0), made_up("mle", 3, 1.0), made_up("del", 2, 0.1), made_up("del", 3, 1.1)]
    rows = {(row.variant, row.group, row.measure): row for row in tabulate_runs(runs)}
    gap = rows["del", "reading integers", "gap_nats"]
    assert gap.value.mean == pytest.approx(0.6) and gap.value.high > 5
    assert (gap.difference.mean, gap.difference.count) == (pytest.approx(0.1), 2)
    assert gap.difference.high - gap.difference.low < 1e-9 and gap.difference.excludes_zero
    assert rows["mle", "readings", "gap_nats"].difference is None
    alone = tabulate_runs([made_up("del", 2, 0.1)])
    assert all(row.difference is None and row.value.low is None for row in alone)


def problem_of(sample):
    """What `is_heldout` is asked: "12+35" of a sum or story, all of the prompt of symbols."""
    if sample.kind in ("date", "identifier"):
        return sample.prompt
    a, b = (number.replace(".", "") for number in re.findall(r"[0-9.]*[0-9]", sample.prompt))
    signs = {"+": "+", "*": "*", "finds": "+", "-": "-", "gives": "-"}
    sign = next(sign for word, sign in signs.items() if f" {word} " in sample.prompt)
    return f"{int(a)}{sign}{int(b)}"


def test_problems_are_held_out_and_of_their_group():
    for group, kinds in PROBLEMS.items():
        samples = draw_problems(group, 3)
        assert len(samples) == 3 * len(kinds)
        assert all(map(is_heldout, map(problem_of, samples)))
    integers = draw_problems("integers", 100)
    assert len({sample.prompt for sample in integers}) == len(integers) == 3 * 100 + 30  # there are 30 products
    assert {sample.kind for sample in draw_problems("decimals", 3)} == {"decimal"}
    assert {sample.kind for sample in draw_problems("symbols", 9)} == {"date", "identifier"}


# ---------------------------------------------------------------- variants


def test_losses_are_all_seven_and_the_weighted_ones_once_more_at_dels_strength():
    base = load_model("embedded")
    found = {variant.name: variant for variant in loss_variants(base)}
    assert list(found)[:7] == [name for name in LOSSES if name != "del_released"]
    assert set(list(found)[7:]) == {f"{name}-matched" for name in MATCHED if name != "del"}
    pulls = measure_pulls(list(found.values()), base, 2)
    for name, pull in pulls.items():
        assert (pull == pytest.approx(pulls["del"], rel=1e-3)) == (name == "del" or name.endswith("-matched"))
    assert pulls["mle"] == 0


def test_every_variant_has_a_configuration_and_a_folder_of_its_own(tmp_path):
    budget = Budget(tmp_path, 300, (2,), 10)
    for some in (ABLATIONS, alpha_variants(tiny_loaded())):
        configs = [variant_config(variant, 3, budget) for variant in some]
        assert len({config.out for config in configs}) == len(configs)
        for config in configs:
            LOSSES[config.loss].check_values(config.options)
            assert (config.steps, config.seed, config.clip, config.model) == (300, 3, 0.0, "embedded")
    assert [variant.alpha for variant in alpha_variants(tiny_loaded())[1:]] == [0.03, None, 0.3, 1.0]
    assert LOSSES["del"].alpha in ALPHAS
    permuted = next(variant for variant in ABLATIONS if variant.name == "dist2-permuted")
    assert permuted.options_of(7) == {"distance": "permuted:7"}


def test_equilibrium_gaps_are_means_over_the_readings_digits():
    assert equilibrium_gaps("mle")["readings"] == pytest.approx(0, abs=1e-5)
    one = equilibrium("del", LAWS["flat"], alpha=0.2, u=2.0).entropy_nats - entropy_nats(LAWS["flat"])
    assert one <= 0
    gaps = []
    for reading in READINGS:
        whole = sum(place >= 0 for place in reading.places)
        for law, place in zip(reading.laws, reading.places, strict=True):
            u = 1.0 + place if place >= 0 else 0.0
            if place < 0:
                u = float(len(reading.laws) - whole + place + 1)  # rule "integer" reads decimals as a run of their own
            gaps.append(equilibrium("del", LAWS[law], alpha=0.2, u=u).entropy_nats - entropy_nats(LAWS[law]))
    found = equilibrium_gaps("del", alpha=0.2, place="integer")
    assert found["readings"] == pytest.approx(np.mean(gaps), abs=1e-5)
    assert equilibrium_gaps("del", alpha=0.2, distance="l1") is None


def test_goal_of_permuted_distances_is_the_mean_over_the_seeds(monkeypatch):
    asked = []

    def gaps(name, *, distance, **_):
        asked.append(distance)
        return {"readings": {"permuted:2": 0.1, "permuted:3": 0.4, "numeric": 0.2}[distance]}

    monkeypatch.setattr(finetuning, "equilibrium_gaps", gaps)
    permuted = Variant("dist2-permuted", "dist2", options={"distance": "permuted:{seed}"})
    assert goal_of(permuted, 1.5, (2, 3)) == {"readings": pytest.approx(0.25)}
    assert goal_of(Variant("dist2", "dist2", options={"distance": "numeric"}), 1.5, (2, 3)) == {"readings": 0.2}
    assert asked == ["permuted:2", "permuted:3", "numeric"]  # one loss whatever the seed is solved once


def test_goal_of_a_loss_with_the_dot_is_not_known():
    assert goal_of(Variant("del-dot", "del", options={"dot": True}), 1.5, (2,)) is None


# ---------------------------------------------------------------- small runs


@pytest.fixture
def quick(monkeypatch):
    """Two variants for each study, and few samples for everything."""
    pair = (Variant("mle", "mle"), Variant("del-place-none", "del", options={"place": "none"}))
    two = {name: dataclasses.replace(study, variants=lambda base: pair, extra=dict) for name, study in STUDIES.items()}
    monkeypatch.setattr(finetuning, "STUDIES", two)
    monkeypatch.setattr(finetuning, "STRENGTH_SAMPLES", 8)


def command(tmp_path, study, *more):
    flags = ["--work", tmp_path / "work", "--out", tmp_path / "out", "--steps", 1, "--heldout", 1, "--batch-size", 2]
    return [study, *map(str, flags), *map(str, more)]


def test_study_writes_results_and_runs_and_passes_over_what_is_done(tmp_path, quick, monkeypatch):
    assert main(command(tmp_path, "losses", "--seeds", 1)) == 0
    out = tmp_path / "out" / "losses"
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert results["command"].startswith("python -m delcore.studies losses --work runs/studies --out notebooks/studies")
    assert results["command"].endswith(" --steps 1 --seeds 1 --batch-size 2 --heldout 1")
    assert results["problems"] == {"integers": 4, "decimals": 1, "symbols": 1}
    assert results["settings"]["seeds"] == [2] and results["runs"] == 2 and results["seconds"]["train"] > 0
    assert str(tmp_path) not in (out / "results.json").read_text()
    assert {row["variant"] for row in results["rows"]} == {"mle", "del-place-none"}
    assert results["equilibrium_gap_nats"]["mle"]["readings"] == pytest.approx(0, abs=1e-4)
    with (out / "runs.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {line["measure"] for line in lines} >= {"gap_nats", "accuracy", "ece", "exact_match", "distance"}
    monkeypatch.setattr(variants, "finish_run", lambda *_: pytest.fail("trained again"))
    assert main(command(tmp_path, "ablations", "--seeds", 1)) == 0  # shares the runs


def test_measurement_of_other_settings_is_not_taken(tmp_path, monkeypatch):
    budget = Budget(tmp_path, 1, (2,), 1, 2)
    write_json(tmp_path / "measured" / "mle-2.json", {"key": {"loss": "mle", "steps": 300}})
    monkeypatch.setattr(variants, "finish_run", lambda *_: {"tokens": 3.0, "digits": 2.0})
    monkeypatch.setattr(variants, "load_model", lambda _: tiny_loaded())
    found = run_variant(Variant("mle", "mle"), 2, budget)
    assert found["key"]["steps"] == 1 and len(found["readings"]) == sum(len(r.laws) for r in READINGS)
    monkeypatch.setattr(variants, "finish_run", lambda *_: pytest.fail("trained again"))
    assert run_variant(Variant("mle", "mle"), 2, budget)["seconds"] == pytest.approx(found["seconds"], rel=1e-5)
    monkeypatch.setattr(variants, "load_model", lambda _: tiny_loaded(seed=1))  # another base
    monkeypatch.setattr(variants, "finish_run", lambda *_: {"tokens": 4.0, "digits": 2.0})
    assert run_variant(Variant("mle", "mle"), 2, budget)["heldout"]["tokens"] == 4.0
    monkeypatch.setattr(variants, "draw_problems", lambda group, count: [Sample("1 + 1 = ", "2")])  # other problems
    monkeypatch.setattr(variants, "finish_run", lambda *_: {"tokens": 5.0, "digits": 2.0})
    assert run_variant(Variant("mle", "mle"), 2, budget)["heldout"]["tokens"] == 5.0


def test_bad_budget_is_one_line(tmp_path, quick, capsys):
    assert main(command(tmp_path, "losses", "--seeds", 0)) == 2
    assert capsys.readouterr().err == "error: `--seeds` and `--heldout` must be at least 1.\n"
    assert main(["embeddings", "--model", "no/such/model", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_smoke_of_every_study(tmp_path, study, monkeypatch):
    monkeypatch.setattr(finetuning, "ABLATIONS", (*ABLATIONS[:3], ABLATIONS[-1]))
    monkeypatch.setattr(finetuning, "ALPHAS", (0.1, 1.0))
    monkeypatch.setattr(finetuning, "parse_losses", lambda _: ["mle", "emo", "del"])
    assert main(command(tmp_path, study, "--seeds", 1)) == 0
    results = json.loads((tmp_path / "out" / study / "results.json").read_text(encoding="utf-8"))
    assert {variant["name"] for variant in results["variants"]} == {row["variant"] for row in results["rows"]}
    assert ("scans" in results) == (study == "alpha")


# ---------------------------------------------------------------- embeddings


def test_order_is_measured_in_every_layer_and_both_contexts():
    rows = measure_order(tiny_loaded(), generated=True, permutations=9)
    assert [(row["kind"], row["context"], row["layer"]) for row in rows] == [
        ("input", "", None),
        *(("contextual", context, layer) for context in ("number", "symbol") for layer in (0, 1)),
    ]
    assert [row["headline"] for row in rows] == [True, False, True, False, True]
    assert all(("similarity" in row) == row["headline"] for row in rows)


def test_embedding_study_writes_its_file_without_paths(tmp_path):
    assert main(["embeddings", "--out", str(tmp_path), "--embedded", "base", "--permutations", "9"]) == 0
    results = json.loads((tmp_path / "embeddings" / "results.json").read_text(encoding="utf-8"))
    assert {row["model"] for row in results["rows"]} == {"embedded:base"} and results["seconds"] > 0
    assert results["command"] == "python -m delcore.studies embeddings --out notebooks/studies"


def test_stored_embedding_results_reach_the_promised_figures():
    from pathlib import Path

    file = Path(__file__).parent.parent / "notebooks" / "studies" / "embeddings" / "results.json"
    rows = [row for row in json.loads(file.read_text(encoding="utf-8"))["rows"] if row["model"].startswith("SmolLM2")]
    headlines = {(row["kind"], row["context"]): row for row in rows if row["headline"]}
    assert set(headlines) == {("input", ""), ("contextual", "number"), ("contextual", "symbol")}
    assert headlines["input", ""]["spearman"] == pytest.approx(0.78, abs=0.01)
    for row in headlines.values():
        assert -1 <= row["spearman"] <= 1 and 0 < row["p_value"] <= 1 and len(row["similarity"]) == 10
