"""Embeddings of the ten digits: planted orders, random ones, degenerate ones, and t-SNE of ten points (B43)."""

import dataclasses

import numpy as np
import pytest

from delcore.analysis import (
    CONTEXTS,
    DigitEmbeddings,
    Provenance,
    generated_contexts,
    load_table,
    measure_similarity,
    project_pca,
    project_tsne,
    read_states,
)
from delcore.analysis.similarity import CHANCE_OF_A_NEIGHBOUR
from delcore.errors import InputError
from tests.models_for_tests import tiny_loaded


def made_up(vectors):
    return DigitEmbeddings(np.asarray(vectors, float), "input", "", None, True, 0, Provenance("made up"))


ANGLES = np.arange(10) * 0.2
ARC = np.stack([np.cos(ANGLES), np.sin(ANGLES)], -1)
LINE = np.outer(np.arange(10), [1.0, 2.0, -1.0])


def scattered(seed, width=16):
    return made_up(np.random.default_rng(seed).standard_normal((10, width)))


# ---------------------------------------------------------------- the statistic


@pytest.mark.parametrize(("vectors", "metric"), [(ARC, "cosine"), (LINE, "euclidean")])
def test_planted_order_has_correlation_one_and_the_smallest_p(vectors, metric):
    found = measure_similarity(made_up(vectors), metric=metric, permutations=999)
    assert found.spearman == pytest.approx(1) and found.p_value == 1 / 1000
    assert found.neighbour_share == 1
    assert np.allclose(found.matrix, found.matrix.T)


def test_reversed_and_shuffled_orders():
    backwards = measure_similarity(made_up(ARC[::-1]), permutations=99)
    assert backwards.spearman == pytest.approx(1)
    order = [0, 5, 1, 6, 2, 7, 3, 8, 4, 9]
    shuffled = measure_similarity(made_up(ARC[order]), permutations=999)
    assert shuffled.spearman < 0.5 and shuffled.p_value > 0.05
    assert shuffled.neighbour_share < 0.3


def test_p_counts_the_observed_order_and_is_never_zero():
    assert measure_similarity(made_up(ARC), permutations=1).p_value in (0.5, 1.0)
    assert measure_similarity(scattered(0), permutations=49).p_value >= 1 / 50


def test_p_is_spread_evenly_where_there_is_no_order():
    found = np.array([measure_similarity(scattered(seed), permutations=199, seed=seed).p_value for seed in range(200)])
    assert 0.4 < found.mean() < 0.6
    assert 0.02 <= (found <= 0.1).mean() <= 0.18
    assert found.min() < 0.05 and found.max() > 0.95


def test_same_seed_gives_the_same_p_and_the_matrix_is_the_cosine():
    embeddings = scattered(3)
    one, two = (measure_similarity(embeddings, permutations=99, seed=5) for _ in range(2))
    assert (one.spearman, one.p_value) == (two.spearman, two.p_value)
    a, b = embeddings.vectors[2], embeddings.vectors[7]
    assert one.matrix[2, 7] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    assert one.nearest[2] == np.delete(np.arange(10), 2)[np.delete(one.matrix[2], 2).argmax()]


def test_correlation_is_scipys():
    from scipy.stats import spearmanr

    found = measure_similarity(scattered(4), permutations=1)
    rows, columns = np.triu_indices(10, 1)
    assert found.spearman == pytest.approx(spearmanr(found.matrix[rows, columns], rows - columns).statistic)


def test_chance_of_a_neighbour_is_that_of_a_blind_draw():
    digits = np.arange(10)
    assert (np.abs(digits[:, None] - digits) == 1).sum() / 90 == pytest.approx(CHANCE_OF_A_NEIGHBOUR)


# ---------------------------------------------------------------- what cannot be compared

BROKEN = {
    "equal": (np.ones((10, 4)), "same for all ten digits"),
    "nan": (np.where(np.arange(10)[:, None] == 3, np.nan, ARC), "digits 3 hold NaN"),
    "infinite": (np.where(np.arange(10)[:, None] > 7, np.inf, ARC), "digits 8, 9 hold NaN or infinity"),
    "nine": (ARC[:9], "ten vectors"),
    "zero": (np.zeros((10, 4)), "same for all ten digits"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("measure", [measure_similarity, project_pca, project_tsne])
def test_degenerate_embeddings_get_a_sentence(name, measure):
    vectors, words = BROKEN[name]
    with pytest.raises(InputError, match=words):
        measure(made_up(vectors))


def test_one_zero_vector_has_no_cosine_but_a_distance():
    vectors = ARC - ARC[0]
    with pytest.raises(InputError, match="digits 0 are zero.*Use euclidean"):
        measure_similarity(made_up(vectors))
    assert measure_similarity(made_up(vectors), metric="euclidean", permutations=9).spearman == pytest.approx(1)


def test_pairs_that_are_all_alike_have_no_order():
    with pytest.raises(InputError, match="equally far"):
        measure_similarity(made_up(np.eye(10)))


@pytest.mark.parametrize(
    ("options", "words"), [({"metric": "manhattan"}, "`metric` must be one of"), ({"permutations": 0}, "at least 1")]
)
def test_bad_options_of_the_statistic_are_named(options, words):
    with pytest.raises(InputError, match=words):
        measure_similarity(scattered(0), **options)


# ---------------------------------------------------------------- pictures


def test_pca_of_a_line_is_a_line_from_left_to_right():
    found = project_pca(made_up(LINE))
    assert found.explained == pytest.approx([1, 0])
    assert (np.diff(found.coordinates[:, 0]) > 0).all()
    assert np.diff(found.coordinates[:, 0]) == pytest.approx(np.full(9, 6**0.5))
    assert project_pca(made_up(LINE[:, :1])).coordinates.shape == (10, 2)


@pytest.mark.parametrize("perplexity", [30, 10, 0.5, float("nan")])
def test_perplexity_that_ten_points_do_not_allow_is_refused(perplexity):
    with pytest.raises(InputError, match="at least 1 and below the number of points.*10 digit embeddings. Try 3"):
        project_tsne(scattered(0), perplexities=[perplexity])


@pytest.mark.parametrize("perplexity", [9, 3])
def test_perplexity_that_ten_points_allow_works(perplexity):
    found = project_tsne(scattered(0), perplexities=[perplexity], seeds=[0])
    assert found.coordinates.shape == (1, 1, 10, 2) and np.isfinite(found.coordinates).all()


def test_same_seed_gives_the_same_picture_and_another_seed_another():
    one, two = (project_tsne(scattered(1), perplexities=[3], seeds=[0, 1]) for _ in range(2))
    assert np.array_equal(one.coordinates, two.coordinates)
    assert not np.allclose(one.coordinates[0, 0], one.coordinates[0, 1])


def test_picture_of_a_planted_order_keeps_neighbours_next_to_one_another():
    found = project_tsne(made_up(ARC), perplexities=[3], seeds=[0])
    points = found.coordinates[0, 0]
    distances = np.linalg.norm(points[:, None] - points, axis=-1) + 1e9 * np.eye(10)
    assert (np.abs(distances.argmin(-1) - np.arange(10)) == 1).all()
    assert found.divergence[0, 0] >= 0


def test_defaults_are_valid_for_ten_points_and_the_caveats_come_with_the_picture():
    found = project_tsne(scattered(2))
    assert len(found.perplexities) == len(found.seeds) == 3
    assert ((found.kept_neighbours >= 0) & (found.kept_neighbours <= 1)).all()
    assert any("perplexity" in caveat for caveat in found.caveats)
    with pytest.raises(InputError, match="must not be empty"):
        project_tsne(scattered(2), seeds=[])
    with pytest.raises(InputError, match="`metric`"):
        project_tsne(scattered(2), metric="nope")


# ---------------------------------------------------------------- from a model


def test_tables_are_the_models_rows():
    loaded = tiny_loaded()
    ids = [loaded.tokenizer.get_vocab()[digit] for digit in "0123456789"]
    found = load_table(loaded, "input")
    assert np.allclose(found.vectors, loaded.model.get_input_embeddings().weight.detach()[ids].numpy())
    assert found.tied and np.array_equal(load_table(loaded, "output").vectors, found.vectors)
    assert found.title == "input embedding" and found.provenance.model == "tiny"
    with pytest.raises(InputError, match="`kind`"):
        load_table(loaded, "middle")


def test_states_are_means_over_contexts_and_begin_with_the_embedding():
    loaded = tiny_loaded()
    both = read_states(loaded, "number", ["a", "b c"])
    apart = [read_states(loaded, "number", [text]) for text in ("a", "b c")]
    assert len(both) == loaded.model.config.num_hidden_layers + 1
    for layer, found in enumerate(both):
        assert found.vectors == pytest.approx((apart[0][layer].vectors + apart[1][layer].vectors) / 2)
        assert (found.layer, found.contexts, found.context) == (layer, 2, "number")
    assert both[0].vectors == pytest.approx(load_table(loaded, "input").vectors)
    assert not np.allclose(both[-1].vectors, apart[0][-1].vectors)


def test_contexts_are_kept_apart_and_never_end_in_an_answer():
    assert not set(CONTEXTS["number"]) & set(CONTEXTS["symbol"])
    for context in CONTEXTS:
        texts = generated_contexts(context, 10, seed=1)
        assert len(texts) == 10 and texts == generated_contexts(context, 10, seed=1)
        assert all(text.startswith(("date", "order")) == (context == "symbol") for text in texts)
    for call in (lambda: generated_contexts("verbs"), lambda: read_states(tiny_loaded(), "verbs")):
        with pytest.raises(InputError, match="`context`"):
            call()
    with pytest.raises(InputError, match="`prefixes`"):
        read_states(tiny_loaded(), "number", [])


def test_damaged_model_gets_a_sentence():
    loaded = tiny_loaded()
    loaded.model.get_input_embeddings().weight.data.fill_(float("nan"))
    with pytest.raises(InputError, match="weights are damaged"):
        measure_similarity(load_table(loaded, "input"))


def test_results_are_frozen():
    found = measure_similarity(scattered(0), permutations=9)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.spearman = 1.0
