"""Ten directions from their cosines: what they keep of the vectors that the cosines were taken of."""

import numpy as np
import pytest

from delcore.analysis import directions_of, measure_similarity, read_similarity
from delcore.analysis.outcomes import DigitEmbeddings
from delcore.analysis.results import Provenance
from delcore.errors import InputError
from delcore.plots import plot_pca, plot_similarity, untitled
from delcore.studies.embeddings import as_row


def embeddings(vectors: np.ndarray) -> DigitEmbeddings:
    return DigitEmbeddings(vectors, "input", "", None, True, 0, Provenance("m", "r"))


@pytest.fixture
def vectors() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((10, 16)) + np.arange(10)[:, None] / 5


def test_directions_have_the_cosines_that_they_were_made_of(vectors):
    cosines = measure_similarity(embeddings(vectors), permutations=1).matrix
    found = directions_of(cosines)
    assert np.allclose(np.linalg.norm(found, axis=1), 1)
    assert np.allclose(found @ found.T, cosines, atol=1e-9)


def test_directions_of_fewer_dimensions_than_ten_are_found_too():
    flat = np.random.default_rng(1).standard_normal((10, 2))
    cosines = measure_similarity(embeddings(flat), permutations=1).matrix
    assert np.allclose(directions_of(cosines) @ directions_of(cosines).T, cosines, atol=1e-6)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(9), "finite numbers"),
        (np.full((10, 10), np.nan), "finite numbers"),
        (np.eye(10) * 2, "ones on the diagonal"),
        (np.eye(10) + np.triu(np.ones((10, 10)), 1), "symmetric"),
        (2 * np.eye(10) - np.ones((10, 10)), "eigenvalue"),
    ],
)
def test_what_is_no_matrix_of_cosines_is_refused(matrix, message):
    with pytest.raises(InputError, match=message):
        directions_of(matrix)


def test_stored_row_becomes_the_result_that_it_was_made_of(vectors):
    result = measure_similarity(embeddings(vectors), permutations=100)
    again = read_similarity(as_row(result, full=True), 100)
    assert (again.spearman, again.p_value) == (result.spearman, result.p_value)
    assert again.nearest.tolist() == result.nearest.tolist()
    assert np.allclose(again.matrix, result.matrix, rtol=1e-3)
    assert again.embeddings.title == result.embeddings.title and again.embeddings.unit == "unit vectors"
    assert np.isnan(read_similarity(as_row(result, full=False), 100).matrix).all()


@pytest.mark.parametrize("change", [{"nearest": None}, {"spearman": "x"}, {"similarity": [[1, 2], [3]]}, {"kind": ...}])
def test_damaged_row_is_refused(vectors, change):
    row = as_row(measure_similarity(embeddings(vectors), permutations=1), full=True)
    row = {key: value for key, value in (row | change).items() if value is not ...}
    with pytest.raises(InputError):
        read_similarity(row, 1)


def test_untitled_figure_loses_only_its_title(vectors):
    titled = plot_similarity(measure_similarity(embeddings(vectors), permutations=1))
    bare = untitled(plot_similarity(measure_similarity(embeddings(vectors), permutations=1), scale=False))
    assert titled.layout.title.text and bare.layout.title.text is None
    inner = [figure.layout.height - figure.layout.margin.t for figure in (titled, bare)]
    assert inner[0] == inner[1] and bare.data[0].z == titled.data[0].z
    assert bare.data[0].showscale is False


def test_components_name_the_unit_of_their_vectors(vectors):
    from delcore.analysis import project_pca

    row = as_row(measure_similarity(embeddings(vectors), permutations=1), full=True)
    own = plot_pca(project_pca(embeddings(vectors))).layout.xaxis.title.text
    stored = plot_pca(project_pca(read_similarity(row, 1).embeddings)).layout.xaxis.title.text
    assert "embedding units" in own and "unit vectors" in stored and "n = 10" in own
