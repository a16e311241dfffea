"""Which samples a run sees, and in what order: held-out ones apart, the others shuffled by the seed alone."""

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import overload

from delcore.arithmetic import Sample, arithmetic_sample
from delcore.errors import InputError


class Selection(Sequence[Sample]):
    """Some of the samples, by their indices."""

    def __init__(self, samples: Sequence[Sample], indices: Sequence[int]) -> None:
        """Keep both as they are."""
        self._samples, self._indices = samples, indices

    def __len__(self) -> int:
        """How many there are."""
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> "Selection": ...

    def __getitem__(self, index: int | slice) -> "Sample | Selection":
        """One sample, or a selection of the selection."""
        if isinstance(index, slice):
            return Selection(self._samples, self._indices[index])
        return self._samples[self._indices[index]]


def split_heldout(samples: Sequence[Sample], count: int, seed: int) -> tuple[Selection, Selection]:
    """The samples to train on, in their order, and `count` others drawn by the seed alone.

    No row is in both; where the data says a thing twice, its two rows may be, and a file of its own
    (`--eval-data`) is the better choice.

    Raises:
        InputError: nothing would be left to train on.
    """
    if count >= len(samples):
        raise InputError(f"`--eval-samples` {count} leaves none of the data's {len(samples)} samples to train on.")
    drawn = random.Random(f"{seed}/heldout").sample(range(len(samples)), count)  # noqa: S311 - a choice, no secret
    kept = set(range(len(samples))).difference(drawn)
    return Selection(samples, sorted(kept)), Selection(samples, drawn)


def iterate_samples(samples: Sequence[Sample] | None, seed: int, start: int = 0) -> Iterator[Sample]:
    """Endless samples in an order that depends on the seed alone: shuffled anew each epoch, or generated.

    Args:
        samples: from `delcore.sources.load_samples`.
        seed: of the order.
        start: how many samples to pass over, for a resumed run.
    """
    index = start
    while samples is None:
        yield arithmetic_sample(index, seed)
        index += 1
    while True:
        epoch, offset = divmod(index, len(samples))
        order = _epoch_order(len(samples), seed, epoch)
        for i in range(offset, len(order)):
            yield samples[order[i]]
            index += 1


@lru_cache(maxsize=2)
def _epoch_order(count: int, seed: int, epoch: int) -> list[int]:
    """Kept, because a step that begins in mid-epoch asks for it again; a large set takes a while to shuffle."""
    order = list(range(count))
    random.Random(f"{seed}/{epoch}").shuffle(order)  # noqa: S311 - an order, not a secret
    return order
