"""What the analyses return: arrays with what each axis means, units and provenance; no torch, so figures load fast."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delcore.analysis.results import Axis, Measured, Provenance
from delcore.intervals import Interval

CALIBRATION_CAVEATS = (
    "ECE is above 0 by chance alone, more so with few digits in a bin: compare it with its chance level.",
    "Conditional on the token being a digit: digit mass is another question.",
)

EXACT = 1e-6
"""Relative residual below which a fit leaves nothing over."""

SCAN_CAVEATS = ("Hollow: not attained, the loss keeps falling as all logits are lowered together.",)

TSNE_CAVEATS = (
    "Ten points: distances between far points and sizes of groups mean nothing; only near neighbours do.",
    "Another perplexity is another picture; the rank correlation does not depend on it.",
    "Axes have no unit, and the picture may be turned or mirrored.",
)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Reliability of the most probable digit, and two scores.

    Args:
        edges: borders of the bins of confidence, [bins + 1].
        confidence: mean probability of the most probable digit, [bins]; NaN in an empty bin.
        accuracy: share of them that are right, [bins].
        counts: digits, [bins].
        ece: expected calibration error, Σ (n/N)·|accuracy − confidence|, from 0 to 1.
        ece_by_chance: its mean where the digits are drawn from p̂, as they would be of a calibrated model.
        brier: mean of Σ_k (p̂_k − [k = c])², from 0 to 2.
        provenance: model and data.
        caveats: what a reader must know.
    """

    edges: NDArray[np.float64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    counts: NDArray[np.int64]
    ece: float
    ece_by_chance: float
    brier: Interval
    provenance: Provenance
    caveats: tuple[str, ...] = CALIBRATION_CAVEATS


@dataclass(frozen=True, eq=False)
class CriterionFits:
    """How well criterion × distance explains each loss's gradient on the digit logits.

    Args:
        losses: keys of `delcore.LOSSES`.
        criteria: keys of `CRITERIA`.
        residual: share of the gradient beside cross-entropy's that no distance explains, [loss, criterion].
        free_residual: the same if cross-entropy may have any weight, not just 1, [loss, criterion].
        distances: the fitted w with weight 1 on cross-entropy, [loss, criterion, c, k]; for the criterion p̂, which does
            not see a constant, such that w(c, c) = 0.
        token_weights: the fitted weight of cross-entropy where it is free, [loss, criterion]; NaN for −log p̂, of which
            cross-entropy itself is a sum, so that no fit can tell its weight from the distance's diagonal.
        provenance: seed and versions.
    """

    losses: tuple[str, ...]
    criteria: tuple[str, ...]
    residual: NDArray[np.float64]
    free_residual: NDArray[np.float64]
    distances: NDArray[np.float64]
    token_weights: NDArray[np.float64]
    provenance: Provenance

    def criterion_of(self, loss: str) -> str | None:
        """The criterion that explains a loss of the form CE + α·Σ w·φ completely, or None."""
        row = self.residual[self.losses.index(loss)]
        return self.criteria[int(row.argmin())] if row.min() < EXACT else None


@dataclass(frozen=True, eq=False)
class EquilibriumScan:
    """Equilibria of some losses over a grid; every array is [loss, law, alpha, u].

    Args:
        losses: keys of `delcore.LOSSES`.
        laws: names of the true distributions.
        alphas: weights of the digit term; None for the loss's default. Losses without one do not move along this axis.
        us: place weights.
        law_entropy_nats: entropy of each law, [law].
        entropy_nats: of p̂ at the equilibrium.
        kl_nats: KL(law ‖ p̂) there.
        attained: False where no finite logits reach it.
        probabilities: p̂ there, [loss, law, alpha, u, 10].
        provenance: versions.
    """

    losses: tuple[str, ...]
    laws: tuple[str, ...]
    alphas: tuple[float | None, ...]
    us: tuple[float, ...]
    law_entropy_nats: NDArray[np.float64]
    entropy_nats: NDArray[np.float64]
    kl_nats: NDArray[np.float64]
    attained: NDArray[np.bool_]
    probabilities: NDArray[np.float64]
    provenance: Provenance
    caveats: tuple[str, ...] = SCAN_CAVEATS

    @property
    def gap(self) -> Measured:
        """Entropy at the equilibrium less the law's: below 0 the loss sharpens, above 0 it flattens."""
        names = ("loss", "law", "α", "place weight u")
        grid: tuple[tuple[object, ...], ...] = (self.losses, self.laws, self.alphas, self.us)
        axes = tuple(Axis(name, "", values) for name, values in zip(names, grid, strict=True))
        gaps = self.entropy_nats - self.law_entropy_nats[:, None, None]
        name = "entropy at the equilibrium − the law's"
        counts = np.ones(gaps.shape, int)
        return Measured(name, "nats", axes, gaps, counts, self.provenance, caveats=self.caveats, is_difference=True)


@dataclass(frozen=True, eq=False)
class PlaceWeights:
    """Weights u of the digits of one number under some rules.

    Args:
        text: the number.
        rules: names of the place rules.
        values: [rule, character]; NaN at the point, which has no digit term.
        jumps: weight of the first decimal less that of the units digit, [rule]; NaN without a point between digits.
        ratios: the first divided by the second, [rule].
        falls: whether a digit never weighs more than one before it, [rule].
    """

    text: str
    rules: tuple[str, ...]
    values: NDArray[np.float64]
    jumps: NDArray[np.float64]
    ratios: NDArray[np.float64]
    falls: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class DigitEmbeddings:
    """One vector for each digit.

    Args:
        vectors: of the digits 0 … 9, [10, width].
        kind: "input", "output" or "contextual".
        context: "number" or "symbol" for contextual states, "" else.
        layer: of contextual states, counted from 0 (the input embedding) to the model's last; None else.
        tied: whether the model's input and output embeddings are the same weights.
        contexts: how many texts each contextual state is a mean over; 0 else.
        provenance: of model and contexts.
        unit: of the vectors.
    """

    vectors: NDArray[np.float64]
    kind: str
    context: str
    layer: int | None
    tied: bool
    contexts: int
    provenance: Provenance
    unit: str = "embedding units"

    @property
    def title(self) -> str:
        """In words."""
        if self.kind != "contextual":
            return f"{self.kind} embedding"
        return f"state in {self.context} contexts, layer {self.layer}"


@dataclass(frozen=True, eq=False)
class DigitSimilarity:
    """How alike the ten vectors are, and how far that follows −|i − j|.

    Args:
        embeddings: what was compared.
        metric: "cosine" similarity, or "euclidean" for the negative distance.
        matrix: [10, 10].
        spearman: rank correlation over the 45 pairs of the similarity with −|i − j|, from −1 to 1.
        p_value: share of relabelled digits that reach it, the observed labels counted among them; one-sided.
        permutations: relabellings drawn.
        seed: of them.
        nearest: the most similar other digit of each digit, [10].
    """

    embeddings: DigitEmbeddings
    metric: str
    matrix: NDArray[np.float64]
    spearman: float
    p_value: float
    permutations: int
    seed: int
    nearest: NDArray[np.int64]

    @property
    def neighbour_share(self) -> float:
        """Share of digits whose nearest one differs by 1; `CHANCE_OF_A_NEIGHBOUR` by chance."""
        return float((np.abs(self.nearest - np.arange(10)) == 1).mean())


@dataclass(frozen=True, eq=False)
class PcaMap:
    """The ten vectors on their first two principal components.

    Args:
        embeddings: what was projected.
        coordinates: [10, 2], in the embedding's own unit; the sign of each axis is such that 9 lies right of 0.
        explained: share of the variance along each, [2].
    """

    embeddings: DigitEmbeddings
    coordinates: NDArray[np.float64]
    explained: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TsneMap:
    """The ten vectors by t-SNE, for some perplexities and seeds.

    Args:
        embeddings: what was projected.
        metric: in which distances were taken.
        perplexities: of the rows.
        seeds: of the columns.
        coordinates: [perplexity, seed, 10, 2], without a unit.
        divergence: what t-SNE minimised, KL in nats, [perplexity, seed].
        kept_neighbours: share of digits whose nearest digit in the picture is the nearest in truth, [perplexity, seed].
        caveats: what a reader must know beside the picture.
    """

    embeddings: DigitEmbeddings
    metric: str
    perplexities: tuple[float, ...]
    seeds: tuple[int, ...]
    coordinates: NDArray[np.float64]
    divergence: NDArray[np.float64]
    kept_neighbours: NDArray[np.float64]
    caveats: tuple[str, ...] = TSNE_CAVEATS
