"""Generated text with numbers in it: sums, word problems, digits as symbols, and readings of a known law.

Every sample is a pure function of (seed, index, split), so all losses see the same samples in the same order
and a run can be resumed at any index. Problems with two operands are split by a checksum of the problem itself:
one in ten is held out and never appears in training, in whatever wording (with its operands swapped it may).
"""

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "heldout"]


@dataclass(frozen=True)
class Sample:
    """One training text: the model reads `prompt` and learns to write `response`."""

    prompt: str
    response: str
    kind: str = "text"
    rendered: bool = False
    """The texts hold their special tokens already, as a chat template wrote them; none is added but the end."""


# ---------------------------------------------------------------- readings with a known law

DESIGN_LAW = (0.01, 0.01, 0.01, 0.01, 0.01, 0.05, 0.20, 0.60, 0.09, 0.01)
"""The law of the equilibrium table: 1.2712 nats."""

LAWS: dict[str, tuple[float, ...]] = {
    "peaked at 7": DESIGN_LAW,
    "flat": (0.1,) * 10,
    "two peaks": (0.01, 0.05, 0.34, 0.05, 0.02, 0.02, 0.05, 0.10, 0.32, 0.04),
    "falling": (0.30, 0.22, 0.16, 0.11, 0.08, 0.05, 0.03, 0.02, 0.02, 0.01),
    "sure of 4": (0.01, 0.01, 0.01, 0.02, 0.90, 0.01, 0.01, 0.01, 0.01, 0.01),
    "even": (0.18, 0.02, 0.18, 0.02, 0.18, 0.02, 0.18, 0.02, 0.18, 0.02),
}
"""Laws of the generated readings, over the digits 0 … 9."""


@dataclass(frozen=True)
class Reading:
    """An instrument whose digits are drawn independently, each from its own law.

    Args:
        prompt: what precedes the reading.
        laws: name in `LAWS` of each digit, in writing order.
        decimals: how many of the digits stand behind the point.
    """

    prompt: str
    laws: tuple[str, ...]
    decimals: int = 0

    @property
    def places(self) -> tuple[int, ...]:
        """Place of each digit: 0 for units, −1 for tenths."""
        whole = len(self.laws) - self.decimals
        return tuple(whole - i - 1 for i in range(len(self.laws)))

    def prefix(self, digits: str) -> str:
        """The first digits as the instrument writes them, with the point where the next one follows it."""
        whole = len(self.laws) - self.decimals
        return f"{digits[:whole]}.{digits[whole:]}" if self.decimals and len(digits) >= whole else digits


READINGS = (
    Reading("sensor A reads ", ("flat",)),
    Reading("sensor B reads ", ("peaked at 7",)),
    Reading("sensor C reads ", ("two peaks",)),
    Reading("sensor D reads ", ("falling",)),
    Reading("sensor E reads ", ("sure of 4",)),
    Reading("sensor F reads ", ("even",)),
    Reading("gauge G shows ", ("peaked at 7", "two peaks")),
    Reading("gauge H shows ", ("falling", "peaked at 7")),
    Reading("counter R counts ", ("peaked at 7", "peaked at 7", "peaked at 7")),
    Reading("meter P gives ", ("peaked at 7", "peaked at 7"), decimals=1),
    Reading("meter Q gives ", ("two peaks", "falling"), decimals=1),
    Reading("dial S marks ", ("peaked at 7", "peaked at 7", "peaked at 7"), decimals=2),
)


def _reading(rng: random.Random, split: Split) -> Sample:
    reading = rng.choice(READINGS)
    digits = "".join(rng.choices("0123456789", LAWS[law])[0] for law in reading.laws)
    return Sample(reading.prompt, reading.prefix(digits), "reading")


# ---------------------------------------------------------------- problems with one right answer


def is_heldout(problem: str) -> bool:
    """Whether a problem such as "12+35" is kept out of training."""
    return zlib.crc32(problem.encode()) % 10 == 0


def heldout_additions(*, either_way: bool = False) -> list[Sample]:
    """Every two-digit addition that training never stated; with `either_way`, nor with its operands swapped."""
    pairs = [(a, b) for a in range(10, 100) for b in range(10, 100) if is_heldout(f"{a}+{b}")]
    if either_way:
        pairs = [(a, b) for a, b in pairs if is_heldout(f"{b}+{a}")]
    return [Sample(f"{a} + {b} = ", str(a + b), "addition") for a, b in pairs]


def _operands(rng: random.Random, split: Split, sign: str, low: int, high: int) -> tuple[int, int]:
    while True:
        a, b = rng.randint(low, high), rng.randint(low, high)
        if sign == "-" and a < b:
            a, b = b, a
        if is_heldout(f"{a}{sign}{b}") == (split == "heldout"):
            return a, b


def _addition(rng: random.Random, split: Split) -> Sample:
    a, b = _operands(rng, split, "+", 10, 99)
    return Sample(f"{a} + {b} = ", str(a + b), "addition")


def _subtraction(rng: random.Random, split: Split) -> Sample:
    a, b = _operands(rng, split, "-", 10, 99)
    return Sample(f"{a} - {b} = ", str(a - b), "subtraction")


def _product(rng: random.Random, split: Split) -> Sample:
    a, b = _operands(rng, split, "*", 2, 19)
    return Sample(f"{a} * {b} = ", str(a * b), "product")


def _decimal(rng: random.Random, split: Split) -> Sample:
    a, b = _operands(rng, split, "+", 10, 99)
    return Sample(f"{a / 10:.1f} + {b / 10:.1f} = ", f"{(a + b) / 10:.1f}", "decimal")


_PEOPLE = ("Ada", "Ben", "Mia", "Tom", "Zoe")
_THINGS = ("apples", "books", "coins", "pens", "shells")


def _word_problem(rng: random.Random, split: Split) -> Sample:
    who, what = rng.choice(_PEOPLE), rng.choice(_THINGS)
    if rng.random() < 0.5:
        a, b = _operands(rng, split, "+", 10, 99)
        return Sample(f"{who} has {a} {what} and finds {b} more. Now {who} has ", str(a + b), "word problem")
    a, b = _operands(rng, split, "-", 10, 99)
    return Sample(f"{who} has {a} {what} and gives away {b}. Now {who} has ", str(a - b), "word problem")


def _symbols(rng: random.Random, split: Split) -> Sample:
    """Digits that name something: copying and reordering, where numeric distance means nothing."""
    while True:
        day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1950, 2049)
        code = "".join(rng.choices("0123456789", k=rng.randint(3, 6)))
        sample = rng.choice(
            (
                Sample(f"date {year}-{month:02}-{day:02} is written ", f"{day:02}/{month:02}/{year}", "date"),
                Sample(f"order {code} ships as order ", code, "identifier"),
            )
        )
        if is_heldout(sample.prompt) == (split == "heldout"):
            return sample


KINDS: dict[str, tuple[float, Callable[[random.Random, Split], Sample]]] = {
    "addition": (0.26, _addition),
    "subtraction": (0.14, _subtraction),
    "product": (0.07, _product),
    "decimal": (0.10, _decimal),
    "word problem": (0.12, _word_problem),
    "symbols": (0.08, _symbols),
    "reading": (0.23, _reading),
}
"""Share of each kind of sample, and how one is drawn."""


def arithmetic_sample(index: int, seed: int, split: Split = "train", kind: str | None = None) -> Sample:
    """The sample of one index; with `kind`, of that kind only.

    Args:
        index: position in the endless sequence, from 0.
        seed: which sequence.
        split: "train", or "heldout" for problems that no training sample states.
        kind: a key of `KINDS`; None for the mixture.
    """
    rng = random.Random(f"{seed}/{split}/{kind}/{index}")  # noqa: S311 - data, not secrets
    if kind is None:
        kind = rng.choices(list(KINDS), [share for share, _ in KINDS.values()])[0]
    return KINDS[kind][1](rng, split)


PATIENCE = 10_000
"""Draws without a new problem after which there is taken to be none left; the rarest turns up once in some 800."""


def heldout_problems(kind: str, count: int, seed: int = 0) -> list[Sample]:
    """Held-out problems of one kind with different prompts, as they are first drawn; fewer if there are fewer.

    Args:
        kind: a key of `KINDS`; there are 30 products, 408 subtractions, more than 800 of the others.
        count: at most so many.
        seed: which sequence they are drawn from.
    """
    found: dict[str, Sample] = {}
    index = last = 0
    while len(found) < count and index - last <= PATIENCE:
        sample = arithmetic_sample(index, seed, "heldout", kind)
        if sample.prompt not in found:
            found[sample.prompt], last = sample, index
        index += 1
    return list(found.values())
