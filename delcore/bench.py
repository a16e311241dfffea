"""What a loss costs: time and peak memory of forward and backward, as ratios measured side by side.

    delcore bench loss --losses mle,del,emo --tokens 1024

Every ratio is that of two neighbours, one run right after the other and that in every round, so a machine that changes
its speed changes both. Memory is what a run needs beyond its inputs: on a GPU the
allocator's own peak, on Linux the peak resident set of the process.
"""

import gc
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from delcore.digits import IGNORE, DigitVocab
from delcore.errors import InputError
from delcore.losses import get_loss, numeric_loss
from delcore.losses.lean import lean_loss

T = TypeVar("T")

Pair = tuple[tuple[float, float | None], tuple[float, float | None]]
"""Seconds and bytes of what is compared with, and of the variant run right after it."""

BASELINE = "cross-entropy on full logits"

SMALLEST_PEAK = 8 * 2**20
"""Bytes below which a peak tells more of the process than of the loss."""


@dataclass(frozen=True)
class Sizes:
    """The batch that is measured."""

    tokens: int = 1024
    """Positions."""

    supervised: float = 0.5
    """Share of them with a label."""

    width: int = 896
    """Of the hidden states (Qwen2.5-0.5B)."""

    vocab: int = 151_936
    """Columns of the head (Qwen2.5)."""

    dtype: str = "float32"
    """Of hidden states and head."""

    device: str = "cpu"
    """Where to run."""

    rounds: int = 7
    """Rounds that count, after one that does not."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if min(self.tokens, self.width, self.rounds) < 1 or self.vocab < 11 or not 0 < self.supervised <= 1:
            raise InputError("`--tokens`, `--width`, `--rounds` must be at least 1, `--supervised` in (0, 1].")
        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise InputError(f"`--dtype` must name a floating dtype, such as float32 or bfloat16; got {self.dtype!r}.")
        try:
            torch.zeros(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise InputError(f"`--device` {self.device!r} cannot be used: {str(error).splitlines()[0][:200]}") from None


@dataclass(frozen=True)
class Ratio:
    """One variant against the baseline, over the rounds."""

    name: str
    """The variant."""

    against: str
    """What it is compared with."""

    time: tuple[float, float, float]
    """Ratio of seconds: median, lowest, highest."""

    memory: tuple[float, float, float] | None
    """Ratio of peak memory beyond the inputs, likewise; None where it cannot be measured, or is too small to be."""


def bench_losses(losses: Sequence[str], sizes: Sizes, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Measure each loss on full logits and on the lean path.

    Returns:
        The sizes, the machine and a `Ratio` (as a dict) per variant, against `BASELINE` and, for the lean ones,
        against lean `mle`.
    """
    variants = _variants([get_loss(name).name for name in losses], sizes)
    pairs = [(name, BASELINE) for name in variants if name != BASELINE]
    pairs += [(name, "lean mle") for name in variants if name.startswith("lean") and name != "lean mle"]
    rounds: list[list[Pair]] = []
    for number in range(sizes.rounds + 1):
        gc.collect()
        rounds.append([])
        for i, (name, against) in enumerate(pairs):
            rounds[-1].append((_measure(variants[against], sizes.device), _measure(variants[name], sizes.device)))
            if progress:
                which = f"round {number} of {sizes.rounds}" if number else "warm-up"
                progress(f"{which}, pair {i + 1} of {len(pairs)}: {name}")
    ratios = [_ratio(*pair, [one[i] for one in rounds[1:]]) for i, pair in enumerate(pairs)]
    return {"sizes": asdict(sizes), "machine": machine(sizes.device), "ratios": [asdict(ratio) for ratio in ratios]}


def machine(device: str) -> str:
    """What the numbers were measured on."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"


def _variants(losses: Sequence[str], sizes: Sizes) -> dict[str, Callable[[], None]]:
    hidden, weight, labels, vocab = _inputs(sizes)

    def run(function: Callable[[], Tensor]) -> Callable[[], None]:
        def step() -> None:
            function().backward()
            hidden.grad = weight.grad = None

        return step

    def on_logits(loss: Callable[[Tensor], Tensor]) -> Callable[[], None]:
        def step() -> None:
            logits = hidden @ weight.T  # alive until the step ends, as a model's output is in a training loop
            loss(logits).backward()
            hidden.grad = weight.grad = None

        return step

    def full(name: str) -> Callable[[Tensor], Tensor]:
        embedding = weight.detach() if name == "emo" else None
        return lambda logits: numeric_loss(name, logits, labels, vocab, embedding=embedding, validate=False).total

    def lean(name: str) -> Callable[[], Tensor]:
        embedding = weight.detach() if name == "emo" else None
        count = int((labels != IGNORE).sum())
        return lambda: (
            lean_loss(
                name, hidden, weight, labels, vocab, embedding=embedding, validate=False, n_supervised=count
            ).total
        )

    variants = {BASELINE: on_logits(lambda z: F.cross_entropy(z[0], labels[0], ignore_index=IGNORE))}
    variants |= {f"full {name}": on_logits(full(name)) for name in losses}
    variants |= {f"lean {name}": run(lean(name)) for name in dict.fromkeys(["mle", *losses])}
    return variants | _liger(hidden, weight, labels, run)


def _liger(hidden: Tensor, weight: Tensor, labels: Tensor, run: Callable[..., Callable[[], None]]) -> dict[str, Any]:
    """Liger-Kernel's fused linear cross-entropy, where it is installed and there is a GPU."""
    try:
        from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss
    except ImportError:
        return {}
    if hidden.device.type != "cuda":
        return {}
    fused = LigerFusedLinearCrossEntropyLoss(ignore_index=IGNORE)
    return {"Liger fused cross-entropy": run(lambda: fused(weight, hidden[0], labels[0]))}


def _inputs(sizes: Sizes) -> tuple[Tensor, Tensor, Tensor, DigitVocab]:
    """Random hidden states and head; of the supervised labels, half are digits."""
    generator = torch.Generator().manual_seed(0)
    dtype: torch.dtype = getattr(torch, sizes.dtype)
    hidden = torch.randn(1, sizes.tokens, sizes.width, generator=generator)
    weight = torch.randn(sizes.vocab, sizes.width, generator=generator) * sizes.width**-0.5
    labels = torch.randint(0, sizes.vocab, (1, sizes.tokens), generator=generator)
    digit = torch.rand(1, sizes.tokens, generator=generator) < 0.5
    labels = torch.where(digit, labels % 10, labels)
    labels[torch.rand(1, sizes.tokens, generator=generator) >= sizes.supervised] = IGNORE
    hidden, weight = (tensor.to(sizes.device, dtype).requires_grad_() for tensor in (hidden, weight))
    return hidden, weight, labels.to(sizes.device), DigitVocab(range(10), dot=10)


def _measure(run: Callable[[], None], device: str) -> tuple[float, float | None]:
    """Seconds and peak bytes beyond what is held before the run."""

    def timed() -> float:
        started = time.perf_counter()
        run()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        return time.perf_counter() - started

    return measure_peak(timed, device)


def measure_peak(run: Callable[[], T], device: str) -> tuple[T, float | None]:
    """What `run` returns, and its peak bytes beyond what is held before it; None where they cannot be measured."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before: float | None = torch.cuda.memory_allocated()
    else:
        before = _resident("VmRSS") if _reset_peak() else None
    result = run()
    peak = torch.cuda.max_memory_allocated() if device.startswith("cuda") else _resident("VmHWM")
    return result, None if before is None else peak - before


def _reset_peak() -> bool:
    """Let the kernel forget the process's peak so far; only Linux can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _resident(field: str) -> float:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0.0
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith(field))) * 1024


def _ratio(name: str, against: str, pairs: Sequence[Pair]) -> Ratio:
    seconds = [mine[0] / theirs[0] for theirs, mine in pairs]
    peaks = [(mine[1], theirs[1]) for theirs, mine in pairs if mine[1] is not None and theirs[1] is not None]
    measured = bool(peaks) and min(min(pair) for pair in peaks) >= SMALLEST_PEAK
    return Ratio(name, against, spread(seconds), spread([a / b for a, b in peaks]) if measured else None)


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, lowest and highest."""
    return statistics.median(values), min(values), max(values)


def format_bench(result: dict[str, Any]) -> str:
    """The ratios as a table for people."""
    lines = [f"{'variant':<28}{'against':<32}{'time':<24}peak memory"]
    for ratio in result["ratios"]:
        columns = [format_spread(ratio[key]) for key in ("time", "memory")]
        lines.append(f"{ratio['name']:<28}{ratio['against']:<32}{columns[0]:<24}{columns[1]}")
    return format_ratios(
        result["machine"],
        result["sizes"],
        lines,
        note="; memory beyond the inputs, – where it cannot be measured or is too small",
    )


def format_ratios(machine: str, settings: Mapping[str, Any], lines: Sequence[str], *, note: str = "") -> str:
    """Lines of ratios between what they were measured on and what they are."""
    facts = ", ".join(f"{key} {value}" for key, value in settings.items())
    told = f"Ratios: median (lowest to highest) over the rounds{note}."
    return "\n".join([f"{machine}; {facts}", "", *lines, "", told])


def format_spread(spread: Sequence[float] | None, missing: str = "–") -> str:
    """Median, lowest and highest as people read them."""
    return missing if spread is None else f"{spread[0]:.2f} ({spread[1]:.2f} to {spread[2]:.2f})"
