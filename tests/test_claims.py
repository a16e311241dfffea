"""The ledger of claims: every rule on made-up results, and the committed ledger against the committed data."""

import dataclasses
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import delcore
from delcore._panels import look_of
from delcore.analysis import fit_criteria
from delcore.checkpoints import write_json
from delcore.errors import InputError
from delcore.intervals import Interval, t_interval
from delcore.studies import claims
from delcore.studies.__main__ import main
from delcore.studies.claims import CLOSED, OPENED, RULES, build_ledger, put_table, table, tally
from delcore.studies.evidence import Part, deciding, interval_text, interval_texts, join, negligible, read_evidence
from delcore.studies.stored import CLAIMS_FILE, VERDICTS, Claim, read_claims
from delcore.studies.trained_claims import smaller_size
from delcore.studies.untrained_claims import CASES

ROOT = Path(delcore.__file__).parents[1]
STUDIES = ROOT / "notebooks" / "studies"
SEEDS = (2, 3, 4, 5)
MOST_SHOWN = 260
"""Characters of a cell that a code-hosting page still shows in a few lines."""
UPS_AND_DOWNS = (3, -1, -3, 1)  # they cancel over the seeds, so noise alone moves no mean
COLUMNS = [("readings", "gap_nats"), ("reading integers", "gap_nats"), ("reading decimals", "gap_nats")]
COLUMNS += [("readings", "kl_nats"), ("integers", "exact_match"), ("decimals", "exact_match")]
COLUMNS += [("integers", "distance"), ("decimals", "distance")]
VARIANTS = {
    "losses": [
        *("mle", "mixce", "emo", "ntl_was", "ntl_mse", "dist2", "del"),
        *("ntl_was-matched", "ntl_mse-matched", "dist2-matched"),
    ],
    "ablations": ["mle", "del", "del-distance-l1", "del-place-none", "del-place-integer"],
}


@dataclass
class World:
    """Made-up results: what each variant measures, how far seeds differ, and the two other studies."""

    values: dict = field(default_factory=dict)
    noise: float = 0.001
    smollm2: dict = field(default_factory=dict)
    order: tuple = (0.9, 0.4)

    def set(self, study, variant, measure, value, groups=None):
        for group, other in COLUMNS:
            if other == measure and group in (groups or [group]):
                self.values[study, variant, group, measure] = value

    def write(self, folder):
        for study, variants in VARIANTS.items():
            lines = ["variant,seed,group,measure,value"]
            for i, variant in enumerate(variants):
                for k, seed in enumerate(SEEDS):
                    for j, (group, measure) in enumerate(COLUMNS):
                        value = self.values.get((study, variant, group, measure), 0.5 * (measure != "gap_nats"))
                        value += self.noise * (1 + 0.1 * i + 0.01 * j) * UPS_AND_DOWNS[(k + i) % 4]
                        lines.append(f"{variant},{seed},{group},{measure},{value}")
            write_json(folder / study / "results.json", study_json(study, variants))
            (folder / study / "runs.csv").write_text("\n".join(lines) + "\n")
        write_json(folder / "smollm2" / "results.json", smollm2_json(self.smollm2))
        rows = [
            {"model": model, "kind": "input", "context": "", "layer": None, "headline": True, "spearman": 0.5,
             "neighbour_share": self.order[0], "p_value": self.order[1]}
            for model in ("SmolLM2-x", "embedded:base")
        ]  # fmt: skip
        write_json(folder / "embeddings" / "results.json", {"rows": rows, "permutations": 99})
        return read_evidence(folder)


def study_json(study, variants):
    made = [
        {"name": name, "loss": name.split("-")[0], "alpha": 0.07 if name.endswith("-matched") else None, "pull": 0.1}
        for name in variants
    ]
    rows = [{"value": {"count": len(SEEDS)}}]
    return {"study": study, "settings": {"steps": 3, "batch_size": 2}, "rows": rows, "variants": made}


def smollm2_json(means):
    def around(mean):
        return {"difference_to_mle": {"mean": mean, "low": mean - 0.01, "high": mean + 0.01, "count": 9}}

    def answered(mean):
        change = around(mean)["difference_to_mle"]
        told = {"change_to_mle": {"difference": change}, "log_error_change_to_mle": change, "unread": {"mean": 0.5}}
        return {"base": told, "mle": told, "del": told}

    digits = {
        loss: {name: around(means.get((loss, name), 0.0)) for name in ("entropy_nats", "expected_digit_error")}
        for loss in ("ntl_was", "dist2", "del")
    }
    answers = {task: answered(mean) for task, mean in (("gsm8k", 0.001), ("svamp", -0.3), ("sat", 0.2))}
    for told in answers["sat"].values():
        told["log_error_change_to_mle"] = None
    return {"digits": digits, "answers": answers, "items": 9, "run": {"settings": {"steps": 5, "batch_size": 8}}}


def papers_world():
    """A world in which every claim holds."""
    world = World()
    for ending in ("", "-matched"):
        world.set("losses", f"ntl_was{ending}", "gap_nats", -0.2)
        world.set("losses", f"dist2{ending}", "gap_nats", 0.2)
    world.set("losses", "del", "gap_nats", 0.05)
    world.set("losses", "del", "exact_match", 0.6)
    world.set("losses", "del", "distance", 0.4)
    world.set("ablations", "del-distance-l1", "exact_match", 0.4)
    world.set("ablations", "del-distance-l1", "kl_nats", 0.6)
    for rule in ("none", "integer"):
        world.set("ablations", f"del-place-{rule}", "kl_nats", 0.6)
        world.set("ablations", f"del-place-{rule}", "exact_match", 0.4, ["integers"])
        world.set("ablations", f"del-place-{rule}", "exact_match", 0.2, ["decimals"])
    world.smollm2 = {("ntl_was", "entropy_nats"): -0.2, ("dist2", "entropy_nats"): 0.2, ("del", "entropy_nats"): 0.03}
    world.smollm2["del", "expected_digit_error"] = -0.1
    return world


def verdicts(evidence):
    return [claim["verdict"] for claim in build_ledger(evidence)["claims"]]


# ---------------------------------------------------------------- rules


def test_every_claim_agrees_where_all_comes_out_as_the_paper_says(tmp_path):
    assert verdicts(papers_world().write(tmp_path)) == ["agrees"] * 10


def opposite(world):
    """The other way round, as far as data can be."""
    for ending in ("", "-matched"):
        world.set("losses", f"ntl_was{ending}", "gap_nats", 0.2)
        world.set("losses", f"ntl_mse{ending}", "gap_nats", 0.1)
        world.set("losses", f"dist2{ending}", "gap_nats", -0.2)
    world.set("losses", "del", "gap_nats", 0.5)
    world.set("losses", "del", "exact_match", 0.4)
    world.set("losses", "del", "distance", 0.6)
    world.set("ablations", "del-distance-l1", "exact_match", 0.6)
    world.set("ablations", "del-distance-l1", "kl_nats", 0.4)
    for rule in ("none", "integer"):
        world.set("ablations", f"del-place-{rule}", "kl_nats", 0.4)
        world.set("ablations", f"del-place-{rule}", "exact_match", 0.6, ["integers"])
        world.set("ablations", f"del-place-{rule}", "exact_match", 0.7, ["decimals"])
    world.smollm2 = {key: -value for key, value in world.smollm2.items()}
    world.smollm2["del", "entropy_nats"] = 0.5
    world.order = (1.0, 0.001)


def test_every_claim_of_data_differs_where_all_comes_out_the_other_way(tmp_path):
    world = papers_world()
    opposite(world)
    assert verdicts(world.write(tmp_path)) == ["differs"] * 8 + ["agrees"] * 2


def test_nothing_is_separated_where_seeds_differ_more_than_losses(tmp_path):
    world = World(noise=0.3, order=(1.0, 0.001))
    found = verdicts(world.write(tmp_path))
    assert [found[i] for i in (0, 1, 2, 3, 4, 6, 7)] == ["not separated"] * 7


def set_gap(name, value):
    return lambda world: world.set("losses", name, "gap_nats", value)


def set_smollm2(loss, measure, value):
    return lambda world: world.smollm2.update({(loss, measure): value})


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (1, set_gap("ntl_was-matched", 0.1)),
        (1, set_gap("ntl_mse", -0.1)),
        (1, set_smollm2("ntl_was", "entropy_nats", 0.0)),
        (2, set_gap("dist2", 0.0)),
        (3, set_gap("dist2-matched", 0.01)),
        (3, set_smollm2("del", "entropy_nats", -0.3)),
        (4, lambda world: world.set("losses", "emo", "exact_match", 0.6)),
        (4, lambda world: world.set("losses", "ntl_was-matched", "exact_match", 0.7)),
        (5, lambda world: world.set("losses", "del", "distance", 0.5, ["decimals"])),
        (5, set_smollm2("del", "expected_digit_error", 0.1)),
        (6, lambda world: setattr(world, "order", (0.9, 0.001))),
        (7, lambda world: world.set("ablations", "del-distance-l1", "exact_match", 0.5)),
        (8, lambda world: world.set("ablations", "del-place-none", "exact_match", 0.4, ["decimals"])),
    ],
)
def test_one_comparison_that_comes_out_otherwise_makes_it_mixed(tmp_path, number, change):
    world = papers_world()
    change(world)
    found = verdicts(world.write(tmp_path))
    assert found[number - 1] == "mixed"
    assert found[:2].count("agrees") == 2 - (number < 3)


@pytest.mark.parametrize(
    ("holds", "expected"),
    [
        ([True, True, True], [0, 2]),
        ([None, True, True, None, False], [1, 4]),
        ([None, True, None], [1, 0]),
        ([None, False, False], [1, 2]),
        ([None, False], [1]),
        ([None], [0]),
    ],
)
def test_deciding_parts_show_both_sides_or_the_ends_of_one(holds, expected):
    parts = [Part(str(i), one, "n = 1 seeds") for i, one in enumerate(holds)]
    assert [int(part.text) for part in deciding(parts)] == expected


def test_joined_verdict_agrees_only_with_one_voice_and_differs_only_without_support():
    yes, no, noise = Part("a", True, ""), Part("b", False, ""), Part("c", None, "")
    assert [join([yes, yes]), join([no, no]), join([noise, noise])] == ["agrees", "differs", "not separated"]
    assert [join([yes, no]), join([yes, noise]), join([no, noise])] == ["mixed", "mixed", "differs"]


def test_negligible_asks_for_the_whole_interval():
    assert negligible(Interval(0.0, -0.019, 0.019, 5)) is True
    assert negligible(Interval(0.0, -0.021, 0.019, 5)) is None
    assert negligible(Interval(-0.03, -0.04, -0.021, 5)) is False
    assert negligible(Interval(0.0, None, None, 1)) is None


def test_sizes_are_compared_whichever_way_they_point():
    near, far, around = Interval(-0.1, -0.2, -0.05, 5), Interval(0.4, 0.3, 0.5, 5), Interval(0.1, -0.05, 0.25, 5)
    assert (smaller_size(near, far), smaller_size(far, near), smaller_size(near, around)) == (True, False, None)


def test_several_comparisons_have_wider_intervals():
    narrow, wide = t_interval([1.0, 2.0, 3.0]), t_interval([1.0, 2.0, 3.0], confidence=1 - 0.05 / 6)
    assert wide.high == pytest.approx(2 + 10.8859 / 3**0.5, rel=1e-3) and wide.high > narrow.high


def test_text_says_where_nothing_is_separated():
    assert interval_text(Interval(-0.1, -0.2, 0.1, 5)) == "−0.100 (−0.200 to +0.100, not separated)"
    assert interval_text(Interval(-0.1, -0.2, -0.05, 5)) == "−0.100 (−0.200 to −0.050)"
    assert interval_text(Interval(0.1, None, None, 1)) == "+0.100 (one seed, no interval)"
    assert interval_text(Interval(0.0002, 0.0001, 0.0003, 5)) == "+0.00020 (+0.00010 to +0.00030)"


def test_numbers_of_one_list_have_as_many_decimals_and_none_is_hidden():
    coarse, fine = Interval(0.0, -0.011, 0.011, 5), Interval(0.005, 0.0001, 0.0099, 5)
    assert interval_texts([coarse, coarse])[0] == "0.000 (−0.011 to +0.011, not separated)"
    found = interval_texts([coarse, fine])
    assert found == ["0.00000 (−0.01100 to +0.01100, not separated)", "+0.00500 (+0.00010 to +0.00990)"]
    assert interval_text(Interval(0.0001, -0.0002, 0.0004, 5)) == "+0.00010 (−0.00020 to +0.00040, not separated)"
    assert interval_text(Interval(0.0, 0.0, 0.0, 5)) == "0.000 (0.000 to 0.000, not separated)"


def test_numbers_of_a_claim_are_those_of_the_data(tmp_path):
    world = papers_world()
    world.noise = 0.0
    claim = build_ledger(world.write(tmp_path))["claims"][0]
    assert "NTL-WAS, default (α 0.3, u 1): entropy less the law's −0.200 (−0.200 to −0.200)" in claim["result"]
    assert "matched (α 0.07, u 1)" in claim["result"] and "MixCE" in claim["result"] and "EMO" in claim["result"]
    assert "embedded model, 4 seeds, 3 steps of 2 samples" in claim["result"]


def test_group_that_every_run_answers_in_full_is_told_and_not_judged(tmp_path):
    world = papers_world()
    world.noise = 0.0
    for study, variants in VARIANTS.items():
        for variant in variants:
            world.set(study, variant, "exact_match", 1.0, ["decimals"])
    found = build_ledger(world.write(tmp_path))["claims"]
    for number in (4, 7, 8):
        result = found[number - 1]["result"]
        assert "exact match on integers" in result and "exact match on decimals" not in result
        assert "decimals 1.000 (as every run: a ceiling, not judged)" in result
    assert [found[i]["verdict"] for i in (3, 6, 7)] == ["agrees"] * 3


def test_gain_on_decimals_is_judged_only_below_their_ceiling(tmp_path):
    world = papers_world()
    below = build_ledger(world.write(tmp_path))["claims"][7]["result"]
    assert below.count("gain on decimals less that on integers") == 2 and "not judged" not in below
    world.noise = 0.0
    for variant in VARIANTS["ablations"]:
        world.set("ablations", variant, "exact_match", 1.0, ["decimals"])
    above = build_ledger(world.write(tmp_path))["claims"][7]["result"]
    assert "gain on decimals" not in above and "decimals most: not judged, ceiling" in above


def test_answers_of_a_real_model_stand_beside_accuracy_and_distance(tmp_path):
    found = build_ledger(papers_world().write(tmp_path))["claims"]
    right, errors = found[3]["result"], found[4]["result"]
    assert "GSM8K +0.001 (−0.009 to +0.011, not separated), SVAMP −0.300 (−0.310 to −0.290), SAT-Math +0.200" in right
    assert "50 % of DEL's and 50 % of MLE's answers name none" in right
    assert "GSM8K DEL +0.001 (−0.009 to +0.011, not separated)" in errors
    assert "SVAMP DEL −0.300 (−0.310 to −0.290), the base −0.300" in errors and "SAT" not in errors


def test_exact_match_is_judged_on_integers_and_decimals_apart(tmp_path):
    world = papers_world()
    world.set("losses", "mixce", "exact_match", 0.7, ["decimals"])
    world.set("ablations", "del-distance-l1", "exact_match", 0.6, ["integers"])
    found = build_ledger(world.write(tmp_path))["claims"]
    assert [found[i]["verdict"] for i in (3, 6)] == ["mixed", "mixed"]
    assert "exact match on decimals of DEL less that of, default: MLE +0.1" in found[3]["result"]


def test_nothing_at_all_below_the_ceiling_is_not_separated(tmp_path):
    world = papers_world()
    world.noise = 0.0
    for variant in VARIANTS["losses"]:
        world.set("losses", variant, "exact_match", 1.0)
    assert verdicts(world.write(tmp_path))[3] == "not separated"


def test_share_that_is_left_over_is_rounded_down(committed):
    claim = next(claim for claim in committed["claims"] if claim["figure"] == "criteria")
    fits = fit_criteria(tuple(CASES))
    told = {
        title: int(share) for title, share in re.findall(r"([\w-]+): every criterion leaves (\d+)%", claim["result"])
    }
    left = {
        look_of(loss).title: 100 * fits.residual[fits.losses.index(loss)].min() for loss in CASES if not CASES[loss]
    }
    assert told.keys() == left.keys() and all(told[title] <= left[title] < told[title] + 1 for title in told)


# ---------------------------------------------------------------- the ledger


def test_claim_whose_study_is_missing_is_not_run(tmp_path):
    papers_world().write(tmp_path)
    for file in ("results.json", "runs.csv"):
        (tmp_path / "losses" / file).unlink()
    found = build_ledger(read_evidence(tmp_path))
    assert [claim["verdict"] for claim in found["claims"]] == ["not run"] * 5 + ["agrees"] * 5
    assert found["claims"][0]["result"] == "to be run: losses"
    assert "losses/runs.csv" not in found["data_sha256"] and "ablations/runs.csv" in found["data_sha256"]


def test_command_writes_data_and_table_and_again_the_same(tmp_path, caplog):
    papers_world().write(tmp_path / "studies")
    readme = tmp_path / "README.md"
    readme.write_text(f"above\n{OPENED}\nold\n{CLOSED}\nbelow\n", encoding="utf-8")
    command = ["claims", "--out", str(tmp_path / "studies"), "--readme", str(readme)]
    assert main(command) == 0
    first = readme.read_text(encoding="utf-8")
    assert first.startswith("above\n") and first.endswith("below\n") and "old" not in first
    assert first.count("**agrees**") == 10
    ledger = (tmp_path / "studies" / CLAIMS_FILE).read_text(encoding="utf-8")
    assert main(command) == 0
    assert (readme.read_text(encoding="utf-8"), (tmp_path / "studies" / CLAIMS_FILE).read_text()) == (first, ledger)


def test_command_outside_a_checkout_writes_the_data_and_says_that_no_table_was_written(tmp_path, monkeypatch, caplog):
    papers_world().write(tmp_path / "studies")
    monkeypatch.chdir(tmp_path)
    with caplog.at_level("INFO"):
        assert main(["claims", "--out", "studies"]) == 0
    assert "No README.md with the table's markers lies here" in caplog.text
    assert (tmp_path / "studies" / CLAIMS_FILE).is_file() and not (tmp_path / "README.md").exists()


def test_command_beside_a_readme_of_someone_else_leaves_it_alone(tmp_path, monkeypatch, caplog):
    papers_world().write(tmp_path / "studies")
    (tmp_path / "README.md").write_bytes("schön\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    with caplog.at_level("INFO"):
        assert main(["claims", "--out", "studies"]) == 0
    assert "No README.md with the table's markers lies here" in caplog.text
    assert (tmp_path / "studies" / CLAIMS_FILE).is_file()
    assert (tmp_path / "README.md").read_bytes() == "schön\n".encode("latin-1")


def test_named_readme_that_is_not_there_is_one_line_and_nothing_is_written(tmp_path, capsys):
    papers_world().write(tmp_path)
    assert main(["claims", "--out", str(tmp_path), "--readme", str(tmp_path / "gone.md")]) == 2
    assert capsys.readouterr().err == f"error: `--readme` must be a file; there is none at {tmp_path / 'gone.md'}.\n"
    assert not (tmp_path / CLAIMS_FILE).exists()


@pytest.mark.parametrize("text", ["none", f"{CLOSED}\n{OPENED}", f"{OPENED}\n{OPENED}\n{CLOSED}"])
def test_readme_without_its_markers_is_one_line_and_nothing_is_written(tmp_path, capsys, text):
    papers_world().write(tmp_path)
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    assert main(["claims", "--out", str(tmp_path), "--readme", str(tmp_path / "README.md")]) == 2
    assert capsys.readouterr().err.startswith("error: `--readme` must hold the lines")
    assert not (tmp_path / CLAIMS_FILE).exists()


def test_study_without_a_variant_or_its_runs_is_one_line(tmp_path, capsys):
    papers_world().write(tmp_path)
    lines = (tmp_path / "losses" / "runs.csv").read_text().splitlines(keepends=True)
    (tmp_path / "losses" / "runs.csv").write_text("".join(line for line in lines if not line.startswith("emo,")))
    command = ["claims", "--out", str(tmp_path), "--readme", str(tmp_path / "README.md")]
    assert main(command) == 2
    assert capsys.readouterr().err == "error: runs.csv lacks emo, or its gap_nats ('emo'); run the study again.\n"
    (tmp_path / "losses" / "runs.csv").unlink()
    assert main(command) == 2
    assert capsys.readouterr().err == "error: The study losses has results.json but no runs.csv; run it again.\n"


def test_folder_without_studies_is_refused(tmp_path):
    with pytest.raises(InputError, match="There are no studies"):
        read_evidence(tmp_path)


def test_table_has_a_row_per_claim_and_no_bar_within_a_cell(tmp_path):
    ledger = build_ledger(papers_world().write(tmp_path))
    rows = table([Claim(**claim) for claim in ledger["claims"]]).splitlines()
    assert len(rows) == 12
    assert {row.count("|") for row in rows} == {5}


def test_table_is_short_and_says_how_many_observations_stand_behind_it(committed):
    for claim in read_claims():
        assert len(claim.brief) <= MOST_SHOWN and ("n = " in claim.brief or "[computed]" in claim.brief), claim.number


def test_sentence_above_the_table_counts_the_verdicts(tmp_path):
    found = [Claim(**claim) for claim in build_ledger(papers_world().write(tmp_path))["claims"]]
    assert tally(found) == "Verdicts of the 10 claims: *agrees* 10."
    found[4:6] = [dataclasses.replace(found[4], verdict="differs"), dataclasses.replace(found[5], verdict="not run")]
    assert tally(found) == "Verdicts of the 10 claims: *agrees* 8, *differs* 1, *not run* 1."


# ---------------------------------------------------------------- what is committed


@pytest.fixture(scope="module")
def committed():
    if not (ROOT / "pyproject.toml").is_file():
        pytest.skip("delcore is not run from a checkout")
    return json.loads((STUDIES / CLAIMS_FILE).read_text(encoding="utf-8"))


def test_committed_ledger_is_what_the_committed_data_say(committed):
    assert build_ledger(read_evidence(STUDIES)) == committed, f"run `{claims.COMMAND}` again"


def test_committed_table_is_that_of_the_committed_ledger(committed):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert put_table(readme, read_claims()) == readme, f"run `{claims.COMMAND}` again"


def test_committed_claims_are_ten_with_known_verdicts(committed):
    found = read_claims()
    assert [claim.number for claim in found] == list(range(1, 11)) and len(RULES) == 10
    assert {claim.verdict for claim in found} <= set(VERDICTS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.claim)
def test_link_of_a_claim_leads_to_a_heading_of_a_notebook(rule, committed):
    name, anchor = rule.link.split("#")
    cells = json.loads((ROOT / "notebooks" / name).read_text(encoding="utf-8"))["cells"]
    lines = [line.strip() for cell in cells if cell["cell_type"] == "markdown" for line in cell["source"]]
    assert anchor in [line.lstrip("# ").replace(" ", "-") for line in lines if line.startswith("#")]


def test_notebook_of_a_claim_says_the_verdict_in_the_ledgers_word(committed):
    for claim in read_claims():
        cells = json.loads((ROOT / "notebooks" / claim.link.split("#")[0]).read_text(encoding="utf-8"))["cells"]
        text = " ".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        said = re.findall(rf"claim\s{claim.number}\b[^.]*?\*([a-z ]+)\*", text)
        assert said and set(said) == {claim.verdict}, f"{claim.link} says {said} of claim {claim.number}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.claim)
def test_figure_of_a_claim_is_an_analysis_or_a_measure_of_a_study_it_needs(rule):
    study, _, measure = rule.figure.partition(":")
    assert rule.figure in ("places", "criteria") or study in rule.needs
    assert not measure or measure == "similarity" or measure in {name for _, name in COLUMNS}
