"""Digit tokens, number spans and place weights: cases B01, B02, B04, B06, B08 and B10, and the rules' hand values."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from delcore.digits import (
    IGNORE,
    PLACE_RULES,
    DigitVocab,
    decimal_points,
    digit_places,
    place_of_next,
    place_weight,
    place_weights,
)
from delcore.errors import InputError
from delcore.spans import NumberSpan, number_spans
from tests import tokenizers_for_tests as tokenizers

VOCAB = DigitVocab(range(10), dot=10)
LETTER = 11

# DEL's weights of tenths, hundredths, thousandths and ten-thousandths: 1.02 to the −2, −3, −4, −5.
D1, D2, D3, D4 = 0.961169, 0.942322, 0.923845, 0.905731


def labels_of(*texts: str) -> torch.Tensor:
    """V12 ids, one character a position: "_" is masked, and what is no digit and no dot is a letter."""
    width = max(map(len, texts))
    return torch.tensor([[_label(character) for character in text.ljust(width)] for text in texts])


def _label(character: str) -> int:
    return IGNORE if character == "_" else tokenizers.V12.get(character, LETTER)


def values(labels: torch.Tensor, vocab: DigitVocab = VOCAB, segments: torch.Tensor | None = None) -> list[list]:
    return [[span.value for span in row] for row in number_spans(labels, vocab, segments)]


def weights(text: str, rule: str = "decimal", **options) -> list[float]:
    return place_weights(labels_of(text), VOCAB, rule, **options)[0].tolist()


def encoded(tokenizer, text: str) -> tuple[torch.Tensor, DigitVocab]:
    return torch.tensor([tokenizers.ids_of(tokenizer, text)]), DigitVocab.from_tokenizer(tokenizer)


# ---------------------------------------------------------------- the ten digits of a vocabulary


def test_vocab_classes_give_the_digit_or_minus_one():
    vocab = DigitVocab([19, 11, 12, 13, 14, 15, 16, 17, 18, 10], dot=3)
    labels = torch.tensor([[19, 10, 3, IGNORE, 9, 20], [11, 18, 0, -1, 100_000, 15]])
    assert vocab.classes(labels).tolist() == [[0, 9, -1, -1, -1, -1], [1, 8, -1, -1, -1, 5]]
    assert vocab.is_digit(labels).tolist() == [[True, True] + [False] * 4, [True, True, False, False, False, True]]
    assert vocab.is_dot(labels).nonzero().tolist() == [[0, 2]]


def test_vocab_without_dot_finds_no_dot_and_reads_integers():
    vocab = DigitVocab(range(10))
    assert not vocab.is_dot(torch.tensor([[10, 0, IGNORE, -1]])).any()
    assert values(labels_of("3.14"), vocab) == [[3, 14]]
    assert place_weights(labels_of("3.14"), vocab).tolist() == [[2, 0, 4, 2]]


def test_vocab_index_holds_the_ids_in_digit_order():
    ids = [7, 3, 9, 1, 0, 2, 8, 4, 6, 5]
    assert DigitVocab(ids).index(torch.device("cpu")).tolist() == ids


def test_vocab_index_made_in_inference_mode_serves_training():
    vocab = DigitVocab(range(100, 110))  # ids that no other test uses, so that nothing is remembered yet
    with torch.inference_mode():
        vocab.index(torch.device("cpu"))
        vocab.classes(torch.tensor([[100]]))
    logits = torch.zeros(2, 120, requires_grad=True)
    logits.index_select(-1, vocab.index(torch.device("cpu"))).sum().backward()
    assert logits.grad.sum() == 20


@pytest.mark.parametrize(
    ("ids", "dot", "message"),
    [
        (range(9), None, "`ids` must be ten distinct"),
        (range(11), None, "`ids` must be ten distinct"),
        ([], None, "`ids` must be ten distinct"),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 8], None, "`ids` must be ten distinct"),
        (range(-1, 9), None, "`ids` must be ten distinct"),
        (range(10), 9, "`dot` must be"),
        (range(10), -1, "`dot` must be"),
    ],
)
def test_vocab_with_bad_ids_is_refused(ids, dot, message):
    with pytest.raises(ValueError, match=message):
        DigitVocab(ids, dot)


def test_vocab_of_lookalikes_is_the_ten_exact_strings():
    tokenizer = tokenizers.lookalike_tokenizer()
    vocab, table = DigitVocab.from_tokenizer(tokenizer), tokenizer.get_vocab()
    assert vocab == DigitVocab([table[digit] for digit in "0123456789"], dot=None)
    assert len(vocab.ids) == 10
    lookalikes = torch.tensor([[table[piece] for piece in tokenizers.LOOKALIKES]])
    assert vocab.classes(lookalikes).tolist() == [[-1] * len(tokenizers.LOOKALIKES)]
    assert vocab.classes(torch.tensor([[table["2"]]])).tolist() == [[2]]


@pytest.mark.parametrize(
    ("digits", "missing"),
    [("12456789", "digits 0, 3,"), ("012345678", "digit 9,"), ("", "0, 1, 2, 3, 4, 5, 6, 7, 8, 9")],
)
def test_vocab_with_digits_missing_is_refused_and_lists_them(digits, missing):
    with pytest.raises(InputError, match=missing):
        DigitVocab.from_tokenizer(tokenizers.lookalike_tokenizer(digits))


def test_vocab_from_something_else_is_a_type_error():
    with pytest.raises(TypeError, match=r"`tokenizer`.*get_vocab.*got str"):
        DigitVocab.from_tokenizer("Qwen/Qwen2.5-0.5B")


# ---------------------------------------------------------------- numbers, worked by hand

NUMBERS = {
    "7": ([7], [2]),
    "12": ([12], [4, 2]),
    "123": ([123], [6, 4, 2]),
    "2024": ([2024], [8, 6, 4, 2]),
    "007": ([7], [6, 4, 2]),
    "-7": ([7], [0, 2]),
    "3.14": ([3.14], [2, 0, D1, D2]),
    "0.05": ([0.05], [2, 0, D1, D2]),
    "100.25": ([100.25], [6, 4, 2, 0, D1, D2]),
    "3.1415": ([3.1415], [2, 0, D1, D2, D3, D4]),
    "1,234.5": ([1, 234.5], [2, 0, 6, 4, 2, 0, D1]),
    # B08: the dot that ends a sentence.
    "42": ([42], [4, 2]),
    "42.": ([42], [4, 2, 0]),
    "a1999. Then": ([1999], [0, 8, 6, 4, 2] + [0] * 6),
    "3.5.": ([3.5], [2, 0, D1, 0]),
    # A dot before a number, and dots that are no decimal points.
    ".5": ([0.5], [0, D1]),
    "a.5": ([0.5], [0, 0, D1]),
    "...5": ([5], [0, 0, 0, 2]),
    "1..5": ([1, 5], [2, 0, 0, 2]),
    "12...": ([12], [4, 2, 0, 0, 0]),
    "1.2..3.4": ([1.2, 3.4], [2, 0, D1, 0, 0, 2, 0, D1]),
    ".": ([], [0]),
    "a": ([], [0]),
    # B10: versions, addresses, dates, dotted thousands.
    "1.2.3": ([1, 2, 3], [2, 0, 2, 0, 2]),
    ".5.6": ([5, 6], [0, 2, 0, 2]),
    "192.168.1.1": ([192, 168, 1, 1], [6, 4, 2, 0, 6, 4, 2, 0, 2, 0, 2]),
    "2024-05-01": ([2024, 5, 1], [8, 6, 4, 2, 0, 4, 2, 0, 4, 2]),
    "3.000.000": ([3, 0, 0], [2, 0, 6, 4, 2, 0, 6, 4, 2]),
    "555.123.4567": ([555, 123, 4567], [6, 4, 2, 0, 6, 4, 2, 0, 8, 6, 4, 2]),
    # Masked positions end a number.
    "12_34": ([12, 34], [4, 2, 0, 4, 2]),
    "3_14": ([3, 14], [2, 0, 4, 2]),
    "3._14": ([3, 14], [2, 0, 0, 4, 2]),
    "3_.14": ([3, 0.14], [2, 0, 0, D1, D2]),
    "1.2_.3": ([1.2, 0.3], [2, 0, D1, 0, 0, D1]),
}


@pytest.mark.parametrize("text", NUMBERS)
def test_spans_of_text_have_the_values_people_read(text):
    (found,) = values(labels_of(text))
    expected = NUMBERS[text][0]
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


@pytest.mark.parametrize("text", NUMBERS)
def test_weights_of_text_match_the_hand_values(text):
    assert weights(text) == pytest.approx(NUMBERS[text][1], rel=1e-5)


def test_spans_of_a_decimal_hold_positions_digits_and_places():
    expected = NumberSpan(
        start=1, stop=6, positions=(1, 2, 4, 5), digits=(3, 0, 1, 4), places=(1, 0, -1, -2), value=30.14
    )
    assert number_spans(labels_of("a30.14a"), VOCAB) == [[expected]]


def test_spans_of_a_leading_dot_start_at_the_dot():
    expected = NumberSpan(start=1, stop=3, positions=(2,), digits=(5,), places=(-1,), value=0.5)
    assert number_spans(labels_of("a.5"), VOCAB) == [[expected]]


def test_spans_of_a_dotted_run_leave_every_dot_out():
    (row,) = number_spans(labels_of("a1.23.4."), VOCAB)
    assert [(span.start, span.stop, span.positions, span.places) for span in row] == [
        (1, 2, (1,), (0,)),
        (3, 5, (3, 4), (1, 0)),
        (6, 7, (6,), (0,)),
    ]


def test_decimal_points_are_the_dots_before_a_tenth():
    labels = labels_of("3.14, 42. .5 1.2.3 1..2 .")
    assert decimal_points(labels, VOCAB)[0].nonzero().flatten().tolist() == [1, 10]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", None),
        ("12", None),
        ("a", None),
        ("3.", -1),
        ("3.1", -2),
        ("3.14", -3),
        (".", -1),
        ("a.0", -2),
        ("3.1a", None),
        ("3.1 ", None),
        ("1.2.", None),
        ("1.2.3", None),
        ("3..", None),
    ],
)
def test_place_of_next_is_known_after_the_point_only(text, place):
    ids = labels_of(text)[0].tolist() if text else []
    assert place_of_next(ids, VOCAB) == place


@pytest.mark.parametrize(("place", "weight"), [(0, 2), (1, 4), (5, 12), (-1, D1), (-2, D2), (-4, D4)])
def test_place_weight_of_one_place_matches_the_hand_value(place, weight):
    assert place_weight(place) == pytest.approx(weight, rel=1e-5)


@pytest.mark.parametrize("rule", PLACE_RULES)
def test_weights_of_five_thousand_digits_are_exact(rule):
    labels = torch.full((1, 5000), 9)
    found = place_weights(labels, VOCAB, rule)[0]
    step = {"decimal": 2, "released": 2, "integer": 1, "none": 0}[rule]
    assert torch.equal(found, torch.arange(5000, 0, -1) * step if step else torch.ones(5000))


def test_spans_of_five_thousand_digits_hold_the_exact_value():
    (row,) = number_spans(torch.full((1, 5000), 9), VOCAB)
    # Compared outside of `assert`, because Python refuses to print so long an integer.
    equal = len(row) == 1 and row[0].value == 10**5000 - 1
    assert equal
    assert row[0].places == tuple(range(4999, -1, -1))


def test_spans_of_five_thousand_decimals_reach_the_last_place():
    ((span,),) = number_spans(labels_of("0." + "5" * 5000), VOCAB)
    assert span.places[-1] == -5000
    assert span.value == pytest.approx(5 / 9)


# ---------------------------------------------------------------- the rules


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        ("integer", "123", [3, 2, 1]),
        ("integer", "3.14", [1, 0, 2, 1]),
        ("integer", ".5", [0, 1]),
        ("integer", "42.", [2, 1, 0]),
        ("integer", "1.2.3", [1, 0, 1, 0, 1]),
        ("integer", "12_34", [2, 1, 0, 2, 1]),
        ("none", "3.14a", [1, 0, 1, 1, 0]),
        ("none", "12_3", [1, 1, 0, 1]),
        ("released", "123", [6, 4, 2]),
        ("released", "3.14", [2, 0, D1, D2]),
        ("released", "42.", [4, 2, 0]),
        ("released", ".5", [0, 2]),
        ("released", "1.2.3", [2, 0, D1, 0, D3]),
        ("released", "1..5", [2, 0, 0, D2]),
        ("released", "3_14", [2, 0, 4, 2]),
    ],
)
def test_weights_of_each_rule_match_the_hand_values(rule, text, expected):
    assert weights(text, rule) == pytest.approx(expected, rel=1e-5)


def test_weights_of_rule_released_match_what_the_authors_code_returned():
    reference = json.loads((Path(__file__).parent / "data" / "place_weights_released.json").read_text())["weights"]
    assert len(reference) == 11
    for text, expected in reference.items():
        assert weights(text, "released") == pytest.approx(expected, rel=1e-5), text


def test_weights_with_other_factor_and_base_use_them():
    found = weights("13.14", integer_factor=3.0, decimal_base=1.1)
    assert found == pytest.approx([6, 3, 0, 1.1**-2, 1.1**-3], rel=1e-5)


@pytest.mark.usefixtures("no_type_checks")
def test_weights_of_an_unknown_rule_are_refused_with_the_choices():
    with pytest.raises(InputError, match=r"decimal, integer, none, released.*'float'"):
        weights("3.14", "float")


@pytest.mark.parametrize("rule", PLACE_RULES)
def test_weights_are_float32_in_the_shape_of_the_labels(rule):
    found = place_weights(labels_of("3.14", "12"), VOCAB, rule)
    assert (found.dtype, found.shape) == (torch.float32, (2, 4))


# ---------------------------------------------------------------- what a number never crosses


def test_spans_of_rows_never_join():
    assert values(labels_of("a12", "34a", ".5.")) == [[12], [34], [0.5]]


@pytest.mark.parametrize(
    ("text", "segments", "expected"),
    [
        ("1234", [0, 0, 1, 1], [12, 34]),
        ("1234", [0, 1, 0, 1], [1, 2, 3, 4]),  # an id that returns is another sample
        ("3.14", [0, 1, 1, 1], [3, 0.14]),
        ("3.14", [0, 0, 1, 1], [3, 14]),
        ("3.14", [0, 0, 0, 1], [3.1, 4]),
        ("1.2.3", [0, 0, 0, 1, 1], [1.2, 0.3]),
        ("1.2.3", [0, 0, 1, 1, 1], [1, 2.3]),
        ("..5", [0, 1, 1], [0.5]),
        ("..5", [0, 0, 1], [5]),
        ("1.23.4", [0, 0, 0, 1, 1, 1], [1.2, 3.4]),
    ],
)
def test_spans_of_packed_samples_never_cross_the_border(text, segments, expected):
    assert values(labels_of(text), segments=torch.tensor([segments])) == [expected]


@pytest.mark.parametrize("rule", PLACE_RULES)
@pytest.mark.parametrize("length", [0, 1, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_weights_of_very_short_rows_keep_their_shape(rule, length, packed):
    labels = torch.full((3, length), 7)
    segments = torch.arange(length).expand(3, length) if packed else None
    assert place_weights(labels, VOCAB, rule, segments).shape == (3, length)
    assert decimal_points(labels, VOCAB, segments).shape == (3, length)


def batches(max_length: int = 24) -> st.SearchStrategy:
    """Two rows of text with the packed sample of each position; dots and digits come often."""
    character = st.sampled_from("0123456789" + "." * 8 + "a_")
    sample = st.sampled_from([0, 0, 0, 0, 0, 1])
    return st.integers(1, max_length).flatmap(
        lambda length: st.tuples(
            *[st.text(character, min_size=length, max_size=length)] * 2,
            st.lists(st.lists(sample, min_size=length, max_size=length), min_size=2, max_size=2),
        )
    )


def _chunks(segments: list[int]) -> list[slice]:
    borders = [i for i in range(1, len(segments)) if segments[i] != segments[i - 1]]
    return [slice(a, b) for a, b in zip([0, *borders], [*borders, len(segments)], strict=True)]


@settings(deadline=None)
@given(batches())
@example(("1.2.3.4", "..1..2.", [[0] * 7, [0] * 7]))
@example(("1.23.45", ".5.6.7.", [[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 0, 0, 1, 1]]))
def test_weights_of_random_text_equal_the_readable_spans(batch):
    *texts, segments = batch
    labels, segments = labels_of(*texts), torch.tensor(segments)
    places, points = torch.zeros_like(labels), torch.zeros_like(labels, dtype=torch.bool)
    expected = torch.zeros(labels.shape)
    for row, spans in enumerate(number_spans(labels, VOCAB, segments)):
        for span in spans:
            points[row, span.start : span.stop] = True
            points[row, list(span.positions)] = False
            places[row, list(span.positions)] = torch.tensor(span.places)
            expected[row, list(span.positions)] = torch.tensor([place_weight(place) for place in span.places])
    assert torch.equal(digit_places(labels, VOCAB, segments), places)
    assert torch.equal(decimal_points(labels, VOCAB, segments), points)
    torch.testing.assert_close(place_weights(labels, VOCAB, "decimal", segments), expected)

    # To rule "integer" a dot is a letter like any other.
    spans_without_dot = number_spans(labels, DigitVocab(range(10)), segments)
    expected = torch.zeros(labels.shape)
    for row, spans in enumerate(spans_without_dot):
        for span in spans:
            expected[row, list(span.positions)] = torch.tensor(span.places).float() + 1
    assert torch.equal(place_weights(labels, VOCAB, "integer", segments), expected)
    assert torch.equal(place_weights(labels, VOCAB, "none", segments), VOCAB.is_digit(labels).float())


@settings(deadline=None)
@given(batches())
def test_spans_of_random_text_hold_every_digit_once_and_add_up(batch):
    *texts, segments = batch
    labels = labels_of(*texts)
    for text, spans in zip(texts, number_spans(labels, VOCAB, torch.tensor(segments)), strict=True):
        held = [position for span in spans for position in span.positions]
        assert held == [i for i, character in enumerate(text) if character.isdigit()]
        for span in spans:
            written = text[span.start : span.stop]
            assert span.value == (float(written) if "." in written else int(written))
            assert Decimal(written) == sum(
                Decimal(digit).scaleb(place) for digit, place in zip(span.digits, span.places, strict=True)
            )


@pytest.mark.parametrize("rule", PLACE_RULES)
@settings(deadline=None, max_examples=50)
@given(batch=batches())
def test_weights_of_random_batches_equal_each_packed_sample_alone(rule, batch):
    *texts, segments = batch
    together = place_weights(labels_of(*texts), VOCAB, rule, torch.tensor(segments))
    for row, text in enumerate(texts):
        alone = [place_weights(labels_of(text[part]), VOCAB, rule)[0] for part in _chunks(segments[row])]
        torch.testing.assert_close(together[row], torch.cat(alone))


@pytest.mark.parametrize("rule", PLACE_RULES)
@settings(deadline=None, max_examples=50)
@given(batch=batches())
def test_weights_of_masked_positions_act_like_letters(rule, batch):
    *texts, segments = batch
    segments = torch.tensor(segments)
    masked = place_weights(labels_of(*texts), VOCAB, rule, segments)
    written = place_weights(labels_of(*(text.replace("_", "a") for text in texts)), VOCAB, rule, segments)
    assert torch.equal(masked, written)


@settings(deadline=None, max_examples=50)
@given(batches(), st.permutations(range(12)))
def test_results_do_not_depend_on_the_order_of_the_vocabulary(batch, order):
    *texts, segments = batch
    labels, segments, order = labels_of(*texts), torch.tensor(segments), torch.tensor(order)
    permuted_labels = torch.where(labels == IGNORE, IGNORE, order[labels.clamp(min=0)])
    permuted = DigitVocab(order[:10].tolist(), dot=int(order[10]))
    assert torch.equal(permuted.classes(permuted_labels), VOCAB.classes(labels))
    assert number_spans(permuted_labels, permuted, segments) == number_spans(labels, VOCAB, segments)
    for rule in PLACE_RULES:
        expected = place_weights(labels, VOCAB, rule, segments)
        assert torch.equal(place_weights(permuted_labels, permuted, rule, segments), expected)


# ---------------------------------------------------------------- fast, on any device


class _CountOperations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("rule", PLACE_RULES)
def test_weights_take_as_many_operations_for_long_rows_as_for_short(rule):
    counts = []
    for length in (8, 512):
        labels = labels_of(("3.14, 1." * 64)[:length])
        with _CountOperations() as operations:
            place_weights(labels, VOCAB, rule, torch.zeros_like(labels))
            decimal_points(labels, VOCAB)
        counts.append(operations.count)
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("rule", PLACE_RULES)
def test_weights_on_meta_stay_on_meta(rule):
    # A meta tensor holds no values, so reading one back to the host raises.
    labels = torch.zeros(2, 5, dtype=torch.long, device="meta")
    found = place_weights(labels, VOCAB, rule, torch.zeros_like(labels))
    assert (found.device.type, found.shape) == ("meta", (2, 5))
    assert decimal_points(labels, VOCAB).device.type == "meta"
    assert VOCAB.index(labels.device).device.type == "meta"


@pytest.mark.usefixtures("no_type_checks")
@pytest.mark.parametrize("rule", PLACE_RULES)
def test_weights_under_compile_equal_eager_without_graph_breaks(rule):
    torch.compiler.reset()
    graphs = []

    def counting_backend(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(place_weights, fullgraph=True, backend=counting_backend)
    texts = [("3.14 1.2.3 " * 2)[shift : shift + 11] for shift in range(11)] + ["a" * 11, "9" * 11]
    for text in texts:
        labels = labels_of(text)
        segments = torch.tensor([[0] * 5 + [1] * 6])
        found = compiled(labels, VOCAB, rule, segments)
        assert torch.equal(found, place_weights(labels, VOCAB, rule, segments)), text
    assert len(graphs) == 1  # one for any number of digits


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("rule", PLACE_RULES)
def test_weights_on_cuda_equal_cpu_without_waiting_for_the_device(rule):
    labels = labels_of("3.14 1.2.3", "42. .5 192")
    segments = torch.tensor([[0] * 5 + [1] * 5, [0] * 10])
    expected = place_weights(labels, VOCAB, rule, segments)
    labels, segments = labels.cuda(), segments.cuda()
    place_weights(labels, VOCAB, rule, segments)  # the first call may copy the ids
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = place_weights(labels, VOCAB, rule, segments)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(found.cpu(), expected)


# ---------------------------------------------------------------- tokenizers, offline


@pytest.mark.parametrize(
    ("right_aligned", "pieces", "classes"),
    [(False, ["123", "456", "7"], [-1, -1, 7]), (True, ["1", "234", "567"], [1, -1, -1])],
)
def test_digits_of_a_grouping_tokenizer_are_the_lone_ones(right_aligned, pieces, classes):
    tokenizer = tokenizers.grouping_tokenizer(right_aligned=right_aligned)
    assert tokenizers.pieces_of(tokenizer, "1234567") == pieces
    labels, vocab = encoded(tokenizer, "1234567")
    assert vocab.classes(labels).tolist() == [classes]
    assert place_weights(labels, vocab).tolist() == [[2.0 if digit >= 0 else 0.0 for digit in classes]]
    assert not vocab.is_digit(torch.tensor([[tokenizer.get_vocab()["123"]]])).any()


def test_vocab_lookup_leaves_the_tokenizer_unchanged():
    tokenizer = tokenizers.grouping_tokenizer()
    before = tokenizer.get_vocab()
    DigitVocab.from_tokenizer(tokenizer)
    assert tokenizer.get_vocab() == before


def test_digits_of_merged_tokens_are_none_though_the_vocabulary_has_them():
    tokenizer = tokenizers.gpt2_style_tokenizer()
    labels, vocab = encoded(tokenizer, "3333333")
    assert vocab.ids == tuple(range(15, 25))
    assert tokenizers.pieces_of(tokenizer, "3333333") == ["3333", "333"]
    assert values(labels, vocab) == [[]]
    assert place_weights(labels, vocab).tolist() == [[0, 0]]


def test_spans_of_llama_ids_leave_the_lone_space_piece_out():
    vocab = DigitVocab(tokenizers.LLAMA_DIGITS, dot=29889)
    labels = torch.tensor([[29871, 29941, 29889, 29896, 29946]])
    expected = NumberSpan(start=1, stop=5, positions=(1, 3, 4), digits=(3, 1, 4), places=(0, -1, -2), value=3.14)
    assert number_spans(labels, vocab) == [[expected]]
    assert place_weights(labels, vocab).tolist() == [pytest.approx([0, 2, 0, D1, D2], rel=1e-5)]


def test_spans_of_llama_style_pieces_leave_the_lone_space_piece_out():
    tokenizer = tokenizers.llama_style_tokenizer()
    labels, vocab = encoded(tokenizer, "3.5 * 2.7 + 8.6")
    assert list(vocab.ids) != sorted(vocab.ids)
    assert tokenizers.pieces_of(tokenizer, "* 2.7")[-4:] == ["▁", "2", ".", "7"]
    assert values(labels, vocab) == [[3.5, 2.7, 8.6]]
    assert all(span.stop - span.start == 3 for span in number_spans(labels, vocab)[0])


@pytest.mark.parametrize(
    ("text", "numbers", "tail"),
    [
        ("The answer is 42.", [42], [4, 2, 0]),
        ("I was born in 1999. Then", [1999], [8, 6, 4, 2] + [0] * 6),
    ],
)
def test_spans_of_a_sentence_leave_its_full_stop_out(text, numbers, tail):
    labels, vocab = encoded(tokenizers.llama_style_tokenizer(), text)
    assert values(labels, vocab) == [numbers]
    assert place_weights(labels, vocab)[0, -len(tail) :].tolist() == tail


# ---------------------------------------------------------------- real tokenizers


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "ids", "dot"),
    [
        ("qwen", range(15, 25), 13),
        ("gpt2", range(15, 25), 13),
        ("deepseek", range(18, 28), 16),
        ("llama2", tokenizers.LLAMA_DIGITS, 29889),
        ("mistral", tokenizers.MISTRAL_DIGITS, 28723),
    ],
)
def test_vocab_of_real_tokenizers_has_the_known_ids(name, ids, dot):
    tokenizer = getattr(tokenizers, f"{name}_tokenizer")()
    assert DigitVocab.from_tokenizer(tokenizer) == DigitVocab(ids, dot)


@pytest.mark.network
def test_spans_of_qwen_read_one_digit_per_token():
    labels, vocab = encoded(tokenizers.qwen_tokenizer(), "123")
    assert labels.tolist() == [[16, 17, 18]]
    assert values(labels, vocab) == [[123]]
    assert place_weights(labels, vocab).tolist() == [[6, 4, 2]]


@pytest.mark.network
def test_digits_of_deepseek_are_the_lone_ones():
    tokenizer = tokenizers.deepseek_tokenizer()
    labels, vocab = encoded(tokenizer, "1234567")
    assert tokenizers.pieces_of(tokenizer, "1234567") == ["123", "456", "7"]
    assert vocab.classes(labels).tolist() == [[-1, -1, 7]]


@pytest.mark.network
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("3", [18]),
        ("33", [2091]),
        ("333", [20370]),
        ("3333", [24840]),
        ("33333", [2091, 20370]),
        ("3333333", [24840, 20370]),
        (" 4", [604]),
    ],
)
def test_digits_of_gpt2_are_merged(text, ids):
    labels, vocab = encoded(tokenizers.gpt2_tokenizer(), text)
    assert labels.tolist() == [ids]
    assert values(labels, vocab) == [[3] if text == "3" else []]


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "space", "ids"),
    [
        ("llama2", 29871, [29871, 29941, 29889, 29896, 29946]),
        ("mistral", 28705, [28705, 28770, 28723, 28740, 28781]),
    ],
)
def test_spans_of_sentencepiece_leave_the_lone_space_piece_out(name, space, ids):
    tokenizer = getattr(tokenizers, f"{name}_tokenizer")()
    labels, vocab = encoded(tokenizer, " 3.14")
    assert labels.tolist() == [ids]
    assert tokenizer.decode([space]) == ""
    ((span,),) = number_spans(labels, vocab)
    assert (span.start, span.stop, span.digits, span.value) == (1, 5, (3, 1, 4), 3.14)
    labels, vocab = encoded(tokenizer, "3.5 * 2.7 + 8.6")
    assert values(labels, vocab) == [[3.5, 2.7, 8.6]]


@pytest.mark.network
@pytest.mark.parametrize("name", ["qwen", "llama2", "mistral"])
@pytest.mark.parametrize("text", ["The answer is 42.", "192.168.1.1", "on 2024-05-01", "3.000.000", "pi is 3.1415"])
def test_spans_of_real_tokenizers_equal_those_of_characters(name, text):
    labels, vocab = encoded(getattr(tokenizers, f"{name}_tokenizer")(), text)
    assert values(labels, vocab) == values(labels_of(text))
