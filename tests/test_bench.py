"""The bench measures what it says, on sizes that take a moment."""

import json

import pytest

from delcore.bench import BASELINE, Sizes, bench_losses
from delcore.cli import main
from delcore.errors import InputError
from delcore.losses import LOSSES

SMALL = Sizes(tokens=32, width=8, vocab=64, rounds=2)


def test_bench_gives_a_ratio_for_every_variant_of_every_loss():
    found = bench_losses(list(LOSSES), SMALL)
    against_full = {ratio["name"] for ratio in found["ratios"] if ratio["against"] == BASELINE}
    assert against_full == {f"{path} {name}" for path in ("full", "lean") for name in LOSSES}
    for ratio in found["ratios"]:
        middle, low, high = ratio["time"]
        assert 0 < low <= middle <= high


def test_bench_of_the_lean_path_needs_less_memory_where_logits_are_large():
    found = bench_losses(["del"], Sizes(tokens=512, supervised=0.25, width=16, vocab=30_000, rounds=1))
    memory = {ratio["name"]: ratio["memory"] for ratio in found["ratios"] if ratio["against"] == BASELINE}
    if memory["lean del"] is None:
        pytest.skip("this system does not tell the peak of a process")
    assert memory["lean del"][0] < memory["full del"][0]


def test_bench_command_prints_a_table_or_json(capsys):
    sizes = ["--tokens", "32", "--width", "8", "--vocab", "64", "--rounds", "1", "--losses", "mle,del"]
    assert main(["bench", "loss", *sizes]) == 0
    assert "lean del" in capsys.readouterr().out
    assert main(["bench", "loss", *sizes, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sizes"]["tokens"] == 32


@pytest.mark.parametrize("bad", [{"tokens": 0}, {"supervised": 0.0}, {"vocab": 10}, {"dtype": "float33"}])
def test_bench_of_sizes_that_cannot_be_is_refused(bad):
    with pytest.raises(InputError, match="`--"):
        Sizes(**bad)


def test_bench_of_an_unknown_loss_is_one_line(capsys):
    assert main(["bench", "loss", "--losses", "nope"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
