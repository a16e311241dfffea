"""Ten digits in the plane: principal components, and t-SNE with what it cannot show."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from delcore.analysis.outcomes import DigitEmbeddings, PcaMap, TsneMap
from delcore.analysis.similarity import METRICS, check_vectors, similarity_matrix
from delcore.errors import InputError

PERPLEXITIES = (2.0, 3.0, 5.0)
SEEDS = (0, 1, 2)
START_SCALE = 1e-4
"""Standard deviation of the start's first component, as scikit-learn has it."""
START_NOISE = 0.1
"""Seeded noise on the start, as a share of `START_SCALE`; without it every seed would give the same picture."""


def project_pca(embeddings: DigitEmbeddings) -> PcaMap:
    """Principal components of the centred vectors; no randomness.

    Raises:
        InputError: vectors that cannot be compared.
    """
    vectors = check_vectors(embeddings.vectors)
    centred = vectors - vectors.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    coordinates = np.zeros((10, 2))
    coordinates[:, : min(2, len(sizes))] = (left * sizes)[:, :2]
    coordinates *= np.where(coordinates[9] < coordinates[0], -1, 1)
    explained = np.zeros(2)
    explained[: min(2, len(sizes))] = (sizes**2 / (sizes**2).sum())[:2]
    return PcaMap(embeddings, coordinates, explained)


def project_tsne(
    embeddings: DigitEmbeddings,
    *,
    perplexities: Sequence[float] = PERPLEXITIES,
    seeds: Sequence[int] = SEEDS,
    metric: str = "cosine",
) -> TsneMap:
    """Exact t-SNE from a PCA start with a little seeded noise; the same seed gives the same picture on one machine.

    Args:
        embeddings: ten vectors.
        perplexities: about how many neighbours count; each at least 1 and below 10, as there are ten points.
        seeds: of the noise on the start.
        metric: "cosine" or "euclidean".

    Raises:
        InputError: vectors that cannot be compared, a perplexity out of range, or no perplexity or seed.

    Source: van der Maaten and Hinton 2008; scikit-learn's `TSNE`.
    """
    if metric not in METRICS:
        raise InputError(f"`metric` must be one of {', '.join(METRICS)}; got {metric!r}.")
    if not perplexities or not seeds:
        raise InputError("`perplexities` and `seeds` must not be empty.")
    for perplexity in perplexities:
        if not 1 <= perplexity < 10:
            raise InputError(
                f"`perplexity` must be at least 1 and below the number of points; got {perplexity:g} for 10 digit "
                "embeddings. Try 3."
            )
    start = project_pca(embeddings).coordinates
    similarity = similarity_matrix(embeddings.vectors, metric)
    shape = (len(perplexities), len(seeds))
    coordinates, divergence, kept = np.zeros((*shape, 10, 2)), np.zeros(shape), np.zeros(shape)
    for i, perplexity in enumerate(perplexities):
        for j, seed in enumerate(seeds):
            found, divergence[i, j] = _run_tsne(embeddings.vectors, start, perplexity, seed, metric)
            coordinates[i, j], kept[i, j] = found, _kept_neighbours(found, similarity)
    return TsneMap(embeddings, metric, tuple(perplexities), tuple(seeds), coordinates, divergence, kept)


def _run_tsne(
    vectors: NDArray[np.float64], start: NDArray[np.float64], perplexity: float, seed: int, metric: str
) -> tuple[NDArray[np.float64], float]:
    from sklearn.manifold import TSNE

    noise = START_NOISE * np.random.default_rng(seed).standard_normal(start.shape)
    init = START_SCALE * (start / start[:, 0].std() + noise)
    tsne = TSNE(perplexity=perplexity, init=init, method="exact", metric=metric, random_state=seed)
    found = np.asarray(tsne.fit_transform(vectors), dtype=np.float64)
    return found, float(tsne.kl_divergence_)


def _kept_neighbours(coordinates: NDArray[np.float64], similarity: NDArray[np.float64]) -> float:
    itself = np.eye(10, dtype=bool)
    shown = np.where(itself, -np.inf, similarity_matrix(coordinates, "euclidean")).argmax(-1)
    true = np.where(itself, -np.inf, similarity).argmax(-1)
    return float((shown == true).mean())
