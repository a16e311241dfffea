"""Does the similarity of learned digits follow their numeric distance? The statistic that t-SNE only illustrates."""

import numpy as np
from numpy.typing import NDArray

from delcore.analysis.outcomes import DigitEmbeddings, DigitSimilarity
from delcore.errors import InputError

METRICS = ("cosine", "euclidean")
PERMUTATIONS = 10_000
CHANCE_OF_A_NEIGHBOUR = 0.2
"""Share of digits whose nearest digit differs by 1, were it drawn blindly: (8 · 2/9 + 2 · 1/9) / 10."""

_PAIRS = np.triu_indices(10, 1)


def measure_similarity(
    embeddings: DigitEmbeddings, *, metric: str = "cosine", permutations: int = PERMUTATIONS, seed: int = 0
) -> DigitSimilarity:
    """Compare the ten vectors, and test their order against random labels.

    The 45 pairs are not independent, so p does not come from a table: the ten digits are given new labels, which keeps
    the matrix and moves its meaning, and p is the share of labellings (the observed one among them) whose correlation
    is at least as high. The order backwards reaches the same correlation, so p may exceed 1 / (permutations + 1).

    Args:
        embeddings: ten vectors.
        metric: "cosine" or "euclidean".
        permutations: labellings to draw, at least 1.
        seed: of them.

    Raises:
        InputError: vectors that cannot be compared (see `check_vectors`), all pairs alike, or a bad option.
    """
    if permutations < 1:
        raise InputError(f"`permutations` must be at least 1; got {permutations}.")
    matrix = similarity_matrix(check_vectors(embeddings.vectors), metric)
    ranks = _ranks(matrix)
    numeric = _ranks(-np.abs(np.subtract.outer(np.arange(10), np.arange(10))).astype(float))
    if np.ptp(ranks[_PAIRS]) == 0:
        raise InputError("`embeddings` are all equally far from one another, so there is no order to compare.")
    observed = float(_correlate(ranks[_PAIRS][None], numeric[_PAIRS])[0])
    generator = np.random.default_rng(seed)
    orders = generator.permuted(np.tile(np.arange(10), (permutations, 1)), axis=1)
    relabelled = ranks[orders[:, _PAIRS[0]], orders[:, _PAIRS[1]]]  # [permutations, pairs]
    reached = int((_correlate(relabelled, numeric[_PAIRS]) >= observed - 1e-12).sum())
    p_value = (1 + reached) / (1 + permutations)
    nearest = np.where(np.eye(10, dtype=bool), -np.inf, matrix).argmax(-1)
    return DigitSimilarity(embeddings, metric, matrix, observed, p_value, permutations, seed, nearest)


def similarity_matrix(vectors: NDArray[np.float64], metric: str) -> NDArray[np.float64]:
    """Pairwise similarity, rounded where rounding errors would break ties.

    Raises:
        InputError: an unknown metric, or a vector of length 0 under "cosine".
    """
    if metric not in METRICS:
        raise InputError(f"`metric` must be one of {', '.join(METRICS)}; got {metric!r}.")
    if metric == "euclidean":
        return -np.linalg.norm(vectors[:, None] - vectors, axis=-1).round(12)
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if (norms == 0).any():
        digits = ", ".join(map(str, np.flatnonzero(norms[:, 0] == 0)))
        raise InputError(f"`embeddings` of the digits {digits} are zero, so they have no cosine. Use euclidean.")
    directions = vectors / norms
    return (directions @ directions.T).round(12)


def check_vectors(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ten vectors that can be told apart, or a sentence that says why not.

    Raises:
        InputError: not ten, NaN or infinite numbers, or ten equal vectors.
    """
    if vectors.ndim != 2 or len(vectors) != 10 or not vectors.size:
        raise InputError(f"`embeddings` must be ten vectors, [10, width]; got {list(vectors.shape)}.")
    broken = ~np.isfinite(vectors).all(-1)
    if broken.any():
        digits = ", ".join(map(str, np.flatnonzero(broken)))
        raise InputError(f"`embeddings` of the digits {digits} hold NaN or infinity: the model's weights are damaged.")
    if np.allclose(vectors, vectors[0], rtol=1e-9, atol=0):
        raise InputError("`embeddings` are the same for all ten digits, so there is nothing to compare.")
    return vectors


def _ranks(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks of the 45 pairs, ties shared, as a symmetric matrix."""
    from scipy.stats import rankdata

    ranks = np.zeros((10, 10))
    ranks[_PAIRS] = rankdata(matrix[_PAIRS])
    return ranks + ranks.T


def _correlate(rows: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pearson's correlation of each row with `other`; of ranks that is Spearman's."""
    rows = rows - rows.mean(-1, keepdims=True)
    other = other - other.mean()
    return (rows @ other) / (np.linalg.norm(rows, axis=-1) * np.linalg.norm(other))
