"""Bad input: one error that names the argument in backticks, what came and what to do, before any computation."""

import copy
import math
import pickle
import re

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import Trainer

from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.losses import LOSSES, numeric_loss
from delcore.losses.lean import lean_loss
from delcore.models import byte_tokenizer
from delcore.trainers import numeric_trainer, trainer_loss

pytestmark = pytest.mark.usefixtures("no_type_checks")  # users meet delcore's own errors

VOCAB = DigitVocab(range(10), dot=10)
LOGITS, LABELS = torch.zeros(2, 4, 12), torch.full((2, 4), 3)
EMBEDDING = torch.eye(12)


def refused(match: str, name: str = "del", *, logits=LOGITS, labels=LABELS, vocab=VOCAB, kind=InputError, **options):
    with pytest.raises(kind, match=match) as caught:
        numeric_loss(name, logits, labels, vocab, **options)
    assert "\n" not in str(caught.value)  # one line
    assert re.match("`[a-z_0-9=A-Z]+`|The place rule", str(caught.value)), caught.value


def test_registry_holds_the_eight_names():
    assert list(LOSSES) == ["mle", "mixce", "emo", "ntl_was", "ntl_mse", "dist2", "del", "del_released"]
    assert [loss.name for loss in LOSSES.values()] == list(LOSSES)


def test_registry_defaults_are_those_of_the_paper():
    assert {name: loss.alpha for name, loss in LOSSES.items()} == {
        "mle": None, "mixce": None, "emo": None,
        "ntl_was": 0.3, "ntl_mse": 0.3, "dist2": 0.1, "del": 0.1, "del_released": 0.01,
    }  # fmt: skip
    assert LOSSES["mixce"].options["eta"] == 0.5
    assert LOSSES["emo"].options["cap"] == 3.0
    assert LOSSES["dist2"].options["tau"] == 1.0
    assert (LOSSES["del"].options["integer_factor"], LOSSES["del"].options["decimal_base"]) == (2.0, 1.02)


def test_registry_cannot_be_changed():
    with pytest.raises(TypeError):
        LOSSES["mle"] = LOSSES["del"]


@pytest.mark.parametrize("name", LOSSES)
def test_registry_entry_that_is_copied_or_pickled_is_the_entry(name):
    loss = LOSSES[name]
    assert copy.copy(loss) is copy.deepcopy(loss) is pickle.loads(pickle.dumps(loss)) is loss
    assert copy.deepcopy({"loss": loss})["loss"] is loss


@pytest.mark.parametrize("name", ["DEL", "", "focal", "cross_entropy"])
def test_unknown_loss_is_refused_with_the_names(name):
    refused(r"`loss` must be one of mle, mixce, emo, ntl_was.*del_released; got '" + name, name)


@pytest.mark.parametrize(
    ("name", "option", "fitting"),
    [
        ("mle", "tau", "no options"),
        ("mixce", "tau", "`eta`"),
        ("emo", "eta", "`cap`, `form`"),
        ("ntl_was", "tau", "`form`, `place`, `distance`"),
        ("dist2", "bce", "`tau`, `softmax`, `form`"),
        ("del", "form", "`place`, `bce`, `distance`, `criterion`, `dot`"),
        ("del_released", "place", "no options"),
        ("del", "aplha", "`place`"),
    ],
)
def test_unfitting_option_is_refused_with_the_fitting_ones(name, option, fitting):
    refused(f"`{name}` does not take `{option}`; it takes.*{re.escape(fitting)}", name, **{option: 1.0})


@pytest.mark.parametrize("name", ["mle", "mixce", "emo"])
def test_alpha_of_a_loss_without_digit_term_is_refused(name):
    refused(f"`alpha` weighs a digit term, and `{name}` has none", name, alpha=0.1, embedding=EMBEDDING)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        *(("dist2", "tau", value) for value in (0, 0.0, -1.0, math.nan)),
        *(("mixce", "eta", value) for value in (-0.1, 1.1, math.nan, math.inf)),
        *(("emo", "cap", value) for value in (0, -3.0, math.nan)),
    ],
)
def test_option_out_of_range_is_refused_with_the_range_and_the_value(name, option, value):
    embedding = EMBEDDING if name == "emo" else None
    refused(
        rf"`{option}` must lie in [\[(]0, .*\]; got {re.escape(repr(value))}",
        name,
        embedding=embedding,
        **{option: value},
    )


@pytest.mark.parametrize("alpha", [-0.1, -1e-9, math.nan, math.inf, -math.inf, "0.1", True])
@pytest.mark.parametrize("name", ["ntl_was", "ntl_mse", "dist2", "del", "del_released"])
def test_alpha_that_is_no_weight_is_refused(name, alpha):
    refused(rf"`alpha` must be a finite number, 0 or above; got {re.escape(repr(alpha))}", name, alpha=alpha)


@pytest.mark.parametrize(("name", "options"), [("mixce", {"eta": 0}), ("mixce", {"eta": 1}), ("del", {"alpha": 0})])
def test_option_at_the_edge_of_its_range_is_accepted(name, options):
    assert numeric_loss(name, LOGITS, LABELS, VOCAB, **options).total.isfinite()


@pytest.mark.parametrize(
    ("name", "option", "value", "choices"),
    [
        ("emo", "form", "paper", "capped, uncapped, anchored"),
        ("ntl_was", "form", "Paper", "paper, released, reweighed"),
        ("ntl_mse", "form", "", "paper, released, reweighed"),
        ("dist2", "form", "reweighed", "paper, released"),
        ("dist2", "softmax", "full", "digits, vocabulary"),
        ("del", "bce", "softmax", "sigmoid, conditional"),
        ("del", "distance", "l2", "none, l1"),
        ("del", "criterion", "kl", "bce, entropy, cross_entropy"),
    ],
)
def test_option_that_is_no_choice_is_refused_with_the_choices(name, option, value, choices):
    embedding = EMBEDDING if name == "emo" else None
    refused(f"`{option}` must be one of {choices}; got {value!r}", name, embedding=embedding, **{option: value})


@pytest.mark.parametrize("distance", ["l1", "permuted", "permuted:", "permuted:-1", "permuted:x", f"permuted:{10**25}"])
@pytest.mark.parametrize("name", ["ntl_was", "ntl_mse", "dist2"])
def test_distance_that_is_no_permutation_is_refused(name, distance):
    refused('`distance` must be "numeric" or "permuted:SEED"', name, distance=distance)


@pytest.mark.parametrize("name", ["ntl_was", "dist2", "del"])
def test_unknown_place_rule_is_refused_with_the_rules(name):
    refused("place.* must be one of decimal, integer, none, released; got 'units'", name, place="units")


def test_dot_without_a_dot_in_the_vocabulary_is_refused():
    refused("`vocab.dot` is None", dot=True, vocab=DigitVocab(range(10)))


def test_emo_without_embedding_is_refused():
    refused(r"`emo` needs `embedding`", "emo")


def test_emo_with_too_few_rows_is_refused_with_both_numbers():
    refused(r"`embedding` must have a row for each of the 12 logits; got 11 rows", "emo", embedding=torch.eye(11))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    ("logits", "labels", "shapes"),
    [
        (torch.zeros(8, 127, 12), torch.zeros(8, 128).long(), r"\[8, 127\] and \[8, 128\]"),
        (torch.zeros(2, 4, 12), torch.zeros(3, 4).long(), r"\[2, 4\] and \[3, 4\]"),
    ],
)
def test_shapes_that_differ_are_refused_with_both(name, logits, labels, shapes):
    embedding = EMBEDDING if name == "emo" else None
    match = r"`logits` and `labels` must share \[batch, seq\]; got " + shapes + ".*`delcore.align`"
    refused(match, name, logits=logits, labels=labels, embedding=embedding)


@pytest.mark.parametrize(
    ("logits", "labels", "shapes"),
    [
        (torch.zeros(4, 12), torch.zeros(4).long(), r"\[4, 12\] and \[4\]"),
        (torch.zeros(2, 4, 12), torch.zeros(8).long(), r"\[2, 4, 12\] and \[8\]"),
    ],
)
def test_shapes_without_a_batch_axis_are_refused_with_the_remedy(logits, labels, shapes):
    refused(r"`logits` must be \[batch, seq, …\].*" + shapes + ".*unsqueeze", logits=logits, labels=labels)


def test_integer_logits_are_a_type_error():
    refused("`logits` must be floating point.*torch.int64", logits=LOGITS.long(), kind=TypeError)


@pytest.mark.parametrize("kind", [torch.float32, torch.bool])
def test_labels_that_are_no_ids_are_a_type_error(kind):
    refused(f"`labels` must be whole token ids; got {kind}", labels=LABELS.to(kind), kind=TypeError)


@pytest.mark.parametrize("label", [12, 13, -1, -99, -101, 151_936])
@pytest.mark.parametrize("name", ["mle", "del"])
def test_labels_out_of_range_are_refused_with_the_range(name, label):
    labels = LABELS.clone()
    labels[1, 2] = label
    refused(f"`labels` must be -100 or from 0 to 11; got {label}", name, labels=labels)


def test_labels_out_of_range_are_looked_for_on_request_only():
    labels = LABELS.clone()
    labels[1, 2] = 12
    refused("`labels` must be", labels=labels, validate=True)
    with pytest.raises(Exception) as caught:  # whatever torch says
        numeric_loss("mle", LOGITS, labels, VOCAB, validate=False)
    assert not isinstance(caught.value, InputError)


def test_digit_ids_beyond_the_head_are_refused_with_id_and_width():
    refused("`vocab` has the .* id 15, but .* 12 columns", vocab=DigitVocab([*range(9), 15]))


def test_segments_of_another_shape_are_refused_with_both():
    match = r"`segments` must have the shape of `labels`, \[2, 4\]; got \[2, 5\]"
    refused(match, segments=torch.zeros(2, 5).long())


@pytest.mark.parametrize("counts", [{"step_tokens": 8}, {"step_digits": 3}])
def test_one_count_without_the_other_is_refused(counts):
    refused("`step_tokens` and `step_digits` go together", **counts)


@pytest.mark.parametrize("count", [-1, 2.5, True, "3"])
def test_counts_that_are_none_are_refused(count):
    refused("`step_tokens` must be a whole number", step_tokens=count, step_digits=1)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"dot": "no"}, "`dot` must be true or false; got 'no'"),
        ({"decimal_base": -1.0}, "`decimal_base` must lie in"),
        ({"integer_factor": float("nan")}, "`integer_factor` must lie in"),
        ({"decimal_base": "x"}, "`decimal_base` must be a number"),
    ],
)
def test_option_of_the_wrong_kind_is_refused(option, message):
    refused(message, **option)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("ntl_was", "distance", 3),
        ("del", "place", 1),
        ("dist2", "place", 2.0),
        ("emo", "form", True),
        ("del", "bce", []),
    ],
)
def test_text_option_of_another_kind_is_refused(name, option, value):
    embedding = EMBEDDING if name == "emo" else None
    refused(rf"`{option}` must be text; got {re.escape(repr(value))}", name, embedding=embedding, **{option: value})


@pytest.mark.parametrize("tau", [1e-45, 1e-310, 5e-324])
def test_smallest_tau_gives_the_target_of_the_label_alone(tau):
    logits = torch.randn(2, 4, 12, generator=torch.Generator().manual_seed(0)).requires_grad_()
    out = numeric_loss("dist2", logits, LABELS, VOCAB, tau=tau, alpha=1.0)
    expected = torch.nn.functional.cross_entropy(logits[..., :10].flatten(0, 1), LABELS.flatten())
    assert out.digit_term.item() == pytest.approx(expected.item(), rel=1e-5)
    out.total.backward()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", [lambda n: torch.tensor([n]), torch.tensor, np.int64, np.uint8])
@pytest.mark.parametrize("path", ["full", "lean"])
def test_counts_of_another_kind_equal_the_plain_number(name, kind, path):
    embedding = EMBEDDING if name == "emo" else None
    outs = []
    for tokens, digits in ((17, 9), (kind(17), kind(9))):
        given = {"step_tokens": tokens, "step_digits": digits, "embedding": embedding}
        if path == "full":
            outs.append(numeric_loss(name, LOGITS, LABELS, VOCAB, **given))
        else:
            outs.append(lean_loss(name, LOGITS, torch.eye(12), LABELS, VOCAB, **given))
    for plain, other in zip(*outs, strict=True):
        assert plain.shape == other.shape
        torch.testing.assert_close(other, plain)


@pytest.mark.parametrize("count", [torch.tensor([1, 2]), torch.zeros(0), np.int64(-1), np.float64(2.0)])
def test_counts_of_more_than_one_number_are_refused(count):
    refused("`step_tokens` must be a whole number.*tensor of one", step_tokens=count, step_digits=1)


# ---------------------------------------------------------------- before any computation


class Untouched(TorchDispatchMode):
    """Fails as soon as anything is computed from some tensors."""

    def __init__(self, *tensors):
        super().__init__()
        self.memory = {tensor.untyped_storage().data_ptr() for tensor in tensors}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        for value in tree_leaves((args, kwargs)):
            if isinstance(value, torch.Tensor) and value.numel():
                assert value.untyped_storage().data_ptr() not in self.memory, f"{function} was called"
        return function(*args, **(kwargs or {}))


OUT_OF_RANGE = [
    ("mixce", {"eta": 1.5}),
    ("emo", {"cap": 0.0}),
    ("emo", {"form": "paper"}),
    ("ntl_was", {"form": "Paper"}),
    ("ntl_was", {"place": "units"}),
    ("ntl_mse", {"distance": "permuted:x"}),
    ("ntl_mse", {"distance": 3}),
    ("dist2", {"tau": -1.0}),
    ("dist2", {"softmax": "full"}),
    ("del", {"place": "units"}),
    ("del", {"integer_factor": -1.0}),
    ("del", {"decimal_base": 0.0}),
    ("del", {"criterion": "kl"}),
    ("del", {"bce": "softmax", "alpha": 1.0}),
    ("del", {"alpha": -1.0}),
    ("mle", {"tau": 1.0}),
    ("emo", {"alpha": 1.0}),
]
TOKENIZER = byte_tokenizer()
CALLS = {
    "numeric_loss": lambda name, **given: numeric_loss(name, LOGITS, LABELS, VOCAB, **given),
    "lean_loss": lambda name, **given: lean_loss(name, LOGITS, EMBEDDING, LABELS, VOCAB, **given),
    "numeric_trainer": lambda name, embedding=None, **given: numeric_trainer(Trainer, name, TOKENIZER, **given),
    "trainer_loss": lambda name, embedding=None, **given: trainer_loss(name, TOKENIZER, **given),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("name", "options"), OUT_OF_RANGE)
def test_option_out_of_range_is_refused_before_any_computation(name, options, call):
    given = {"embedding": EMBEDDING.clone() if name == "emo" else None, **options}
    with pytest.raises(InputError), Untouched(LOGITS, LABELS, EMBEDDING):
        CALLS[call](name, **given)


@pytest.mark.parametrize("call", ["numeric_loss", "lean_loss"])
@pytest.mark.parametrize("embedding", [None, torch.eye(11)])
def test_emo_without_its_embedding_is_refused_before_any_computation(call, embedding):
    with pytest.raises(InputError, match="`embedding`"), Untouched(LOGITS, EMBEDDING):
        CALLS[call]("emo", embedding=embedding, validate=False)


@pytest.mark.parametrize("call", ["numeric_loss", "lean_loss"])
def test_dot_without_a_dot_is_refused_before_any_computation(call):
    function = {"numeric_loss": numeric_loss, "lean_loss": lean_loss}[call]
    given = (LOGITS,) if call == "numeric_loss" else (LOGITS, EMBEDDING)
    with pytest.raises(InputError, match="`vocab.dot` is None"), Untouched(LOGITS, LABELS, EMBEDDING):
        function("del", *given, LABELS, DigitVocab(range(10)), dot=True)
