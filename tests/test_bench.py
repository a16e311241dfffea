"""The bench measures what it says, on sizes that take a moment."""

import gc
import json

import pytest

from delcore import bench
from delcore.bench import BASELINE, Sizes, bench_losses
from delcore.cli import main
from delcore.errors import InputError
from delcore.losses import LOSSES

SMALL = Sizes(tokens=32, width=8, vocab=64, rounds=2)


@pytest.fixture(autouse=True, scope="module")
def few_objects_to_collect():
    """A measurement begins with a collection, which would go through all that a test run has imported."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def test_bench_gives_a_ratio_for_every_variant_of_every_loss():
    found = bench_losses(list(LOSSES), SMALL)
    against_full = {ratio["name"] for ratio in found["ratios"] if ratio["against"] == BASELINE}
    assert against_full == {f"{path} {name}" for path in ("full", "lean") for name in LOSSES}
    for ratio in found["ratios"]:
        middle, low, high = ratio["time"]
        assert 0 < low <= middle <= high


def test_bench_of_the_lean_path_needs_less_memory_where_logits_are_large():
    found = bench_losses(["del"], Sizes(tokens=2048, supervised=0.25, width=16, vocab=30_000, rounds=1))
    memory = {ratio["name"]: ratio["memory"] for ratio in found["ratios"] if ratio["against"] == BASELINE}
    if memory["full del"] is None:
        pytest.skip("this system does not tell the peak of a process")
    assert memory["lean del"][0] < memory["full del"][0]


def test_bench_command_prints_a_table_or_json(capsys):
    sizes = ["--tokens", "32", "--width", "8", "--vocab", "64", "--rounds", "1", "--losses", "mle,del"]
    assert main(["bench", "loss", *sizes]) == 0
    assert "lean del" in capsys.readouterr().out
    assert main(["bench", "loss", *sizes, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sizes"]["tokens"] == 32


@pytest.mark.parametrize(("peak", "memory"), [(bench.SMALLEST_PEAK, (3.0, 3.0, 3.0)), (1e-9, None), (-1.0, None)])
def test_bench_ratio_is_that_of_interleaved_neighbours(monkeypatch, peak, memory):
    """Each variant runs right after what it is compared with, in every round; seconds are made up by their order."""
    names = {}
    make = bench._variants

    def named_variants(losses, sizes):
        variants = make(losses, sizes)
        names.update({run: name for name, run in variants.items()})
        return variants

    order = []

    def measure(run, device):
        order.append(names[run])
        return 2.0 ** len(order), peak * 3.0 ** len(order)  # only a neighbour is twice and thrice as much

    monkeypatch.setattr(bench, "_variants", named_variants)
    monkeypatch.setattr(bench, "_measure", measure)
    found = bench_losses(["mle", "del"], SMALL)["ratios"]
    pairs = [(BASELINE, name) for name in ("full mle", "full del", "lean mle", "lean del")] + [("lean mle", "lean del")]
    assert order == [name for pair in pairs for name in pair] * (1 + SMALL.rounds)
    assert [(ratio["against"], ratio["name"]) for ratio in found] == pairs
    for ratio in found:
        assert (ratio["time"], ratio["memory"]) == ((2.0, 2.0, 2.0), memory)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--device", "nope", "`--device` 'nope' cannot be used"),
        ("--device", "cuda:99", "`--device` 'cuda:99' cannot be used"),
        ("--dtype", "int64", "`--dtype` must name a floating dtype"),
        ("--dtype", "bool", "`--dtype` must name a floating dtype"),
        ("--dtype", "nn", "`--dtype` must name a floating dtype"),
    ],
)
def test_bench_of_a_device_or_dtype_that_cannot_be_is_one_line(option, value, message, capsys):
    with pytest.raises(InputError, match=message):
        Sizes(**{option.removeprefix("--"): value})
    assert main(["bench", "loss", option, value]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("bad", [{"tokens": 0}, {"supervised": 0.0}, {"vocab": 10}, {"dtype": "float33"}])
def test_bench_of_sizes_that_cannot_be_is_refused(bad):
    with pytest.raises(InputError, match="`--"):
        Sizes(**bad)


def test_bench_of_an_unknown_loss_is_one_line(capsys):
    assert main(["bench", "loss", "--losses", "nope"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
