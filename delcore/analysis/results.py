"""What a measurement is: numbers with named axes and units, what is behind each of them, and where they come from."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delcore.versions import installed_versions


def measuring_versions() -> dict[str, str]:
    """Versions of the packages that a measurement depends on."""
    return installed_versions("delcore", "torch", "transformers", "numpy", "scikit-learn", python=False)


@dataclass(frozen=True)
class Provenance:
    """Where a result comes from.

    Args:
        model: name of the model; "" where none is involved.
        revision: what tells two versions of its weights apart.
        data: what was measured on, in words.
        data_sha256: fingerprint of the texts; "" where there are none.
        seed: of everything random; None where nothing is.
        versions: of the packages.
    """

    model: str = ""
    revision: str = ""
    data: str = ""
    data_sha256: str = ""
    seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=measuring_versions)


@dataclass(frozen=True)
class Axis:
    """One axis of a result: what it runs over, in which unit ("" for none), and where."""

    name: str
    unit: str
    values: tuple[Any, ...]

    @property
    def title(self) -> str:
        """As a figure writes it.

        >>> Axis("place", "", (0,)).title, Axis("entropy", "nats", ()).title
        ('place', 'entropy (nats)')
        """
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, eq=False)
class Measured:
    """Numbers over one or more axes.

    Args:
        name: what was measured.
        unit: of the values; "" for a share or a count of nothing.
        axes: one per dimension of the arrays.
        values: the numbers; NaN where nothing was observed.
        counts: observations (digits, if nothing else is said) behind each value.
        low: lower end of the 95 % interval; None where no interval was computed, NaN where none can be.
        high: upper end.
        provenance: where it comes from.
        caveats: what a reader must know beside the numbers.
        is_difference: the numbers are differences, so that 0 means "alike".
    """

    name: str
    unit: str
    axes: tuple[Axis, ...]
    values: NDArray[np.float64]
    counts: NDArray[np.int64]
    provenance: Provenance
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    caveats: tuple[str, ...] = ()
    is_difference: bool = False

    def __post_init__(self) -> None:
        """Axes and arrays must agree; arrays are frozen like the rest."""
        shape = tuple(len(axis.values) for axis in self.axes)
        for array in (self.values, self.counts, self.low, self.high):
            if array is not None:
                assert array.shape == shape, (self.name, array.shape, shape)
                array.setflags(write=False)

    @property
    def title(self) -> str:
        """As a figure writes it, with the unit."""
        return Axis(self.name, self.unit, ()).title

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per value, for a table or a CSV file."""
        found = []
        for index in itertools.product(*(range(len(axis.values)) for axis in self.axes)):
            row = {axis.name: axis.values[i] for axis, i in zip(self.axes, index, strict=True)}
            row |= {self.title: float(self.values[index]), "n": int(self.counts[index])}
            if self.low is not None and self.high is not None:
                row |= {"low": float(self.low[index]), "high": float(self.high[index])}
            found.append(row)
        return found
