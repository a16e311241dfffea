"""Stored similarities as results again, with ten unit vectors that have these cosines; no model, no torch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delcore.analysis.outcomes import DigitEmbeddings, DigitSimilarity
from delcore.analysis.results import Provenance
from delcore.errors import InputError

DIRECTIONS_UNIT = "unit vectors"


def read_similarity(row: Mapping[str, Any], permutations: int) -> DigitSimilarity:
    """A row of `delcore.studies.embeddings` as the result that it was made of; vectors become directions.

    Args:
        row: as `measure_order` writes it; without "similarity" (a layer that is no headline) there is no matrix.
        permutations: relabellings of its test.

    Raises:
        InputError: the row lacks something, or its matrix cannot be one of cosines.
    """
    try:
        matrix = np.array(row.get("similarity", np.full((10, 10), np.nan)), dtype=np.float64)
        embeddings = DigitEmbeddings(
            directions_of(matrix) if "similarity" in row else np.zeros((10, 0)),
            str(row["kind"]),
            str(row["context"]),
            row["layer"],
            bool(row["tied"]),
            int(row["contexts"]),
            Provenance(row["model"], row["revision"], data_sha256=row["contexts_sha256"], versions={}),
            DIRECTIONS_UNIT,
        )
        nearest = np.array(row["nearest"], dtype=np.int64)
        spearman, p_value = float(row["spearman"]), float(row["p_value"])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"A stored row of embeddings is damaged ({error!r:.80}). Make the study again.") from None
    return DigitSimilarity(embeddings, "cosine", matrix, spearman, p_value, permutations, 0, nearest)


def directions_of(cosines: NDArray[np.float64] | Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Ten unit vectors with these cosines, up to a rotation and the rounding of the cosines.

    Similarities, neighbours and t-SNE under cosine are those of the vectors that the cosines were taken of; lengths
    are not, so principal components are those of the directions.

    Args:
        cosines: symmetric, [10, 10].

    Returns:
        [10, 10].

    Raises:
        InputError: another shape, NaN or infinity, or no matrix of cosines.
    """
    matrix = np.asarray(cosines, dtype=np.float64)
    if matrix.shape != (10, 10) or not np.isfinite(matrix).all():
        raise InputError(f"`cosines` must be [10, 10] finite numbers; got {list(matrix.shape)}.")
    if not np.allclose(matrix, matrix.T, atol=1e-3) or not np.allclose(np.diag(matrix), 1, atol=1e-3):
        raise InputError("`cosines` must be symmetric with ones on the diagonal.")
    sizes, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    if sizes[0] < -0.01:  # rounding to four digits moves them by less
        raise InputError("`cosines` cannot be those of ten vectors: an eigenvalue is negative.")
    vectors: NDArray[np.float64] = axes * np.sqrt(np.clip(sizes, 0, None))
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
