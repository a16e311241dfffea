"""The lean path gives the numbers and the gradients of the full one."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from delcore.digits import IGNORE, DigitVocab
from delcore.errors import InputError
from delcore.losses import LOSSES, _chunks, numeric_loss
from delcore.losses.lean import head_of, lean_loss
from tests.models_for_tests import tiny_model

VOCAB = DigitVocab([3, 9, 1, 12, 7, 5, 20, 18, 11, 2], dot=15)
COLUMNS, WIDTH = 30, 8
VARIANTS = [(name, {}) for name in LOSSES] + [
    ("emo", {"form": "anchored"}),
    ("emo", {"form": "uncapped"}),
    ("mixce", {"eta": 0.0}),
    ("ntl_was", {"form": "reweighed"}),
    ("ntl_mse", {"form": "reweighed", "place": "decimal"}),
    ("dist2", {"softmax": "vocabulary"}),
    ("dist2", {"form": "released"}),
    ("del", {"dot": True}),
    ("del", {"bce": "conditional", "distance": "l1"}),
    ("del", {"criterion": "entropy"}),
]


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", 4 * COLUMNS * 16)


def draw(dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(4, 20, WIDTH, dtype=dtype, generator=generator, requires_grad=True)
    weight = torch.randn(COLUMNS, WIDTH, dtype=dtype, generator=generator, requires_grad=True)
    bias = torch.randn(COLUMNS, dtype=dtype, generator=generator, requires_grad=True)
    labels = torch.randint(0, COLUMNS, (4, 20), generator=generator)
    labels[torch.rand(4, 20, generator=generator) < 0.4] = IGNORE
    return hidden, weight, bias, labels


def arguments(name, options):
    embedding = torch.randn(COLUMNS, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return {"embedding": embedding if name == "emo" else None, **options}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_lean_loss_equals_the_full_one_in_every_field_and_gradient(name, options, with_bias):
    hidden, weight, bias, labels = draw()
    bias = bias if with_bias else None
    inputs = [hidden, weight, *([bias] if with_bias else [])]
    counts = {"step_tokens": 97, "step_digits": 41}
    logits = hidden @ weight.T + (0 if bias is None else bias)
    full = numeric_loss(name, logits, labels, VOCAB, **counts, **arguments(name, options))
    lean = lean_loss(name, hidden, weight, labels, VOCAB, head_bias=bias, **counts, **arguments(name, options))
    for field in full._fields:
        torch.testing.assert_close(getattr(lean, field), getattr(full, field), rtol=1e-10, atol=1e-10, msg=field)
    expected = torch.autograd.grad(3 * full.total, inputs)
    found = torch.autograd.grad(3 * lean.total, inputs)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("small_chunks")
def test_lean_loss_with_the_count_equals_the_one_without():
    hidden, weight, _, labels = draw()
    count = int((labels != IGNORE).sum())
    with_count = lean_loss("del", hidden, weight, labels, VOCAB, n_supervised=count).total
    assert torch.equal(with_count, lean_loss("del", hidden, weight, labels, VOCAB).total)


def test_lean_loss_with_a_wrong_count_is_refused():
    hidden, weight, _, labels = draw()
    with pytest.raises(InputError, match="`n_supervised` must be this batch's"):
        lean_loss("del", hidden, weight, labels, VOCAB, n_supervised=1)


def test_lean_loss_without_supervision_is_zero_with_zero_gradients():
    hidden, weight, _, labels = draw()
    output = lean_loss("del", hidden, weight, torch.full_like(labels, IGNORE), VOCAB)
    output.total.backward()
    assert output.total.item() == 0
    assert not hidden.grad.any()
    assert not weight.grad.any()


def test_lean_loss_of_a_tied_head_gives_both_parts_of_the_gradient():
    embedding = nn.Embedding(COLUMNS, WIDTH, dtype=torch.float64)
    ids = torch.randint(0, COLUMNS, (2, 12), generator=torch.Generator().manual_seed(3))
    full = numeric_loss("del", embedding(ids[:, :-1]) @ embedding.weight.T, ids[:, 1:], VOCAB).total
    lean = lean_loss("del", embedding(ids[:, :-1]), embedding.weight, ids[:, 1:], VOCAB).total
    expected = torch.autograd.grad(full, embedding.weight)
    torch.testing.assert_close(torch.autograd.grad(lean, embedding.weight), expected, rtol=1e-9, atol=1e-12)


def test_lean_loss_backward_twice_is_refused():
    hidden, weight, _, labels = draw()
    total = lean_loss("del", hidden, weight, labels, VOCAB).total
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="only once"):
        total.backward()


def test_lean_loss_differentiated_twice_is_refused_and_names_the_path_that_can():
    hidden, weight, _, labels = draw()
    total = lean_loss("del", hidden, weight, labels, VOCAB).total
    with pytest.raises(RuntimeError, match="`numeric_loss`"):
        torch.autograd.grad(total, [hidden, weight], create_graph=True)


@pytest.mark.parametrize("validate", [False, None])
def test_lean_loss_with_a_wrong_count_raises_also_where_labels_are_not_looked_at(validate):
    hidden, weight, _, labels = draw()
    for count in (1, int((labels != IGNORE).sum()) + 1):
        with pytest.raises((RuntimeError, InputError), match="`n_supervised`"):
            lean_loss("del", hidden, weight, labels, VOCAB, n_supervised=count, validate=validate)


class MadeTensors(TorchDispatchMode):
    """Shapes of the tensors that are made, not those that look at another's memory."""

    def __init__(self):
        super().__init__()
        self.shapes = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        known = {t.untyped_storage().data_ptr() for t in args if isinstance(t, torch.Tensor)}
        if isinstance(found, torch.Tensor) and found.untyped_storage().data_ptr() not in known:
            self.shapes.add(tuple(found.shape))
        return found


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("without_gradient", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_lean_loss_without_gradient_has_the_value_and_makes_no_gradient_buffers(name, options, without_gradient):
    hidden, weight, bias, labels = draw()
    given = arguments(name, options)
    full = numeric_loss(name, hidden @ weight.T + bias, labels, VOCAB, **given)
    gradients = {(labels.numel(), WIDTH), (COLUMNS, WIDTH)}
    with MadeTensors() as made:
        lean = lean_loss(name, hidden, weight, labels, VOCAB, head_bias=bias, **given)
    assert made.shapes >= gradients  # so that it would be seen below
    assert lean.total.requires_grad
    with without_gradient(), MadeTensors() as made:
        lean = lean_loss(name, hidden, weight, labels, VOCAB, head_bias=bias, **given)
    assert not made.shapes & gradients
    assert not lean.total.requires_grad
    for field in full._fields:
        torch.testing.assert_close(getattr(lean, field), getattr(full, field).detach(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", LOSSES)
def test_lean_loss_of_states_made_in_inference_mode_has_the_value(name):
    hidden, weight, _, labels = draw()
    full = numeric_loss(name, hidden @ weight.T, labels, VOCAB, **arguments(name, {})).total.item()
    with torch.inference_mode():
        lean = lean_loss(name, hidden * 1, weight * 1, labels.clone(), VOCAB, **arguments(name, {})).total
    assert lean.item() == pytest.approx(full, rel=1e-10)


def test_lean_loss_of_a_frozen_head_gives_only_the_hidden_gradient():
    hidden, weight, _, labels = draw()
    total = lean_loss("del", hidden, weight.detach(), labels, VOCAB).total
    full = numeric_loss("del", hidden @ weight.detach().T, labels, VOCAB).total
    torch.testing.assert_close(torch.autograd.grad(total, hidden), torch.autograd.grad(full, hidden))


@pytest.mark.usefixtures("no_type_checks")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": torch.zeros(4, 19, dtype=torch.long)}, "`hidden` and `labels` must share"),
        ({"labels": torch.full((4, 20), COLUMNS)}, "`labels` must be -100 or from 0 to 29"),
        ({"head_weight": torch.zeros(12, WIDTH, dtype=torch.float64)}, "token id 20, but the head has 12 columns"),
        ({"head_weight": torch.zeros(COLUMNS, 5, dtype=torch.float64)}, r"`head_weight` must be .*8; got \[30, 5\]"),
        ({"head_weight": torch.zeros(COLUMNS, dtype=torch.float64)}, r"`head_weight` must be .*8; got \[30\]"),
        ({"head_bias": torch.zeros(29, dtype=torch.float64)}, r"`head_bias` must be \[30\].*got \[29\]"),
        ({"head_bias": torch.zeros(1, dtype=torch.float64)}, r"`head_bias` must be \[30\].*got \[1\]"),
    ],
)
def test_lean_loss_of_unfit_input_is_refused(change, message):
    hidden, weight, _, labels = draw()
    given = {"head_weight": weight, "labels": labels, **change}
    with pytest.raises(InputError, match=message):
        lean_loss("del", hidden, vocab=VOCAB, **given)


@pytest.mark.parametrize("name", ["mle", "del", "emo"])
def test_lean_loss_under_autocast_is_as_exact_as_the_full_one(name):
    hidden, weight, _, labels = draw(torch.float32)
    full_exact = numeric_loss(name, hidden @ weight.T, labels, VOCAB, embedding=weight if name == "emo" else None).total
    with torch.autocast("cpu", dtype=torch.bfloat16):
        embedding = weight if name == "emo" else None
        full = numeric_loss(name, hidden @ weight.T, labels, VOCAB, embedding=embedding).total
        lean = lean_loss(name, hidden, weight, labels, VOCAB, embedding=embedding).total
    found, expected = torch.autograd.grad(lean, [hidden, weight]), torch.autograd.grad(full, [hidden, weight])
    assert lean.item() == pytest.approx(full.item(), rel=1e-3)
    assert lean.item() == pytest.approx(full_exact.item(), rel=1e-2)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0.02 * theirs.abs().max().item())


def relative_error(found, exact):
    return ((found.double() - exact).norm() / exact.norm()).item()


def gradients_of(total, inputs, scale=1.0):
    """Of a scaled total, divided by the scale again, as a gradient scaler does."""
    return [gradient.double() / scale for gradient in torch.autograd.grad(total * scale, inputs)]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("step_tokens", [50, 10**6])
def test_lean_gradients_in_float16_under_a_loss_scale_are_as_exact_as_the_full_ones(name, step_tokens):
    """Where 1/M is no number in float16, and the loss scale makes the gradient one again."""
    inputs = [tensor.detach().half().requires_grad_() for tensor in draw(torch.float32)[:2]]
    exact_inputs = [tensor.detach().double().requires_grad_() for tensor in inputs]
    labels, given = draw()[3], {**arguments(name, {}), "step_tokens": step_tokens, "step_digits": step_tokens // 2}

    def full_total(hidden, weight):
        return numeric_loss(name, hidden @ weight.T, labels, VOCAB, **given).total

    expected = gradients_of(full_total(*exact_inputs), exact_inputs)
    scale = 1000 / max(gradient.abs().max() for gradient in expected)  # large, and yet a number in float16
    full = gradients_of(full_total(*inputs), inputs, scale)
    lean = gradients_of(lean_loss(name, *inputs, labels, VOCAB, **given).total, inputs, scale)
    for mine, theirs, exact in zip(lean, full, expected, strict=True):
        assert mine.isfinite().all()
        assert relative_error(mine, exact) <= max(1.5 * relative_error(theirs, exact), 1e-3)


@pytest.mark.parametrize(("name", "alpha", "tokens", "digits"), [("ntl_mse", 10.0, 1000, 1), ("del", 10.0, 10**5, 100)])
def test_lean_gradients_in_float16_are_finite_where_the_digit_term_is_far_the_larger(name, alpha, tokens, digits):
    inputs = [tensor.detach().half().requires_grad_() for tensor in draw(torch.float32)[:2]]
    labels, counts = draw()[3], {"step_tokens": tokens, "step_digits": digits, "alpha": alpha}
    full = numeric_loss(name, inputs[0] @ inputs[1].T, labels, VOCAB, **counts).total
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(full, inputs))
    lean = lean_loss(name, *inputs, labels, VOCAB, **counts).total
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(lean, inputs))


# ---------------------------------------------------------------- EMO's cosines in low precision


def emo_in_float64(hidden, weight, labels, embedding):
    exact = [tensor.detach().double().requires_grad_() for tensor in (hidden, weight)]
    total = numeric_loss("emo", exact[0] @ exact[1].T, labels, VOCAB, embedding=embedding.double()).total
    return total.detach(), torch.autograd.grad(total, exact)


@pytest.mark.parametrize("path", ["full", "lean"])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_emo_with_an_embedding_of_another_dtype_is_exact_to_float32(path, kind):
    hidden, weight, _, labels = draw(torch.float32)
    embedding = torch.randn(COLUMNS, 64, generator=torch.Generator().manual_seed(1)).to(kind)
    if path == "full":
        total = numeric_loss("emo", hidden @ weight.T, labels, VOCAB, embedding=embedding).total
    else:
        total = lean_loss("emo", hidden, weight, labels, VOCAB, embedding=embedding).total
    expected, exact_gradients = emo_in_float64(hidden, weight, labels, embedding)
    assert total.item() == pytest.approx(expected.item(), rel=1e-6)
    for found, exact in zip(torch.autograd.grad(total, [hidden, weight]), exact_gradients, strict=True):
        assert relative_error(found, exact) < 1e-5


@pytest.mark.parametrize("path", ["full", "lean"])
def test_emo_under_autocast_loses_only_what_the_head_loses(path):
    hidden, weight, _, labels = draw(torch.float32)
    embedding = torch.randn(COLUMNS, 64, generator=torch.Generator().manual_seed(1))
    rounded = [tensor.detach().bfloat16() for tensor in (hidden, weight)]
    logits = rounded[0] @ rounded[1].T  # what the head gives under autocast
    exact = numeric_loss("emo", logits.double(), labels, VOCAB, embedding=embedding.double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        if path == "full":
            out = numeric_loss("emo", hidden @ weight.T, labels, VOCAB, embedding=embedding)
        else:
            out = lean_loss("emo", hidden, weight, labels, VOCAB, embedding=embedding)
    torch.testing.assert_close(out.per_position.double(), exact.per_position, rtol=1e-5, atol=1e-5)
    assert out.total.item() == pytest.approx(exact.total.item(), rel=1e-6)


def test_lean_loss_of_two_dtypes_outside_autocast_is_refused():
    hidden, weight, _, labels = draw()
    with pytest.raises(InputError, match="must share a dtype"):
        lean_loss("del", hidden.float(), weight, labels, VOCAB)


# ---------------------------------------------------------------- the head of a model


@pytest.mark.parametrize("bias", [False, True])
def test_lean_loss_of_a_models_head_equals_the_loss_of_its_logits(bias):
    model = tiny_model()
    if bias:
        model.lm_head.bias = nn.Parameter(torch.randn(259))
    ids = torch.arange(4, 40).view(2, 18)
    weight, found_bias = head_of(model)
    hidden = model.model(input_ids=ids).last_hidden_state
    vocab = DigitVocab(range(10))
    lean = lean_loss("del", hidden[:, :-1], weight, ids[:, 1:], vocab, head_bias=found_bias).total
    full = numeric_loss("del", model(input_ids=ids).logits[:, :-1], ids[:, 1:], vocab).total
    torch.testing.assert_close(lean, full, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("final_logit_softcapping", 30.0),
        ("logits_soft_cap", 30.0),  # RecurrentGemma
        ("output_logit_soft_cap", 30.0),  # xLSTM
        ("logit_scale", 0.0625),
        ("logits_scaling", 8.0),
        ("lm_head_multiplier", 0.5),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_head_of_a_model_that_changes_its_logits_is_refused_by_name(entry, value, nested):
    model = tiny_model()
    setattr(model.config, entry, value)
    if nested:  # as in models that read pictures as well
        model.config = SimpleNamespace(get_text_config=lambda text=model.config: text)
    with pytest.raises(InputError, match=f"`{entry}` = {value}"):
        head_of(model)


def test_head_of_recurrent_gemma_is_refused():
    from transformers import RecurrentGemmaConfig, RecurrentGemmaForCausalLM

    config = RecurrentGemmaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, lru_width=16
    )
    with pytest.raises(InputError, match="`logits_soft_cap` = 30"):
        head_of(RecurrentGemmaForCausalLM(config))


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_head_with_a_hook_is_refused_and_one_without_again_is_not(register):
    model = tiny_model()
    hook = getattr(model.lm_head, register)(lambda *args: None)
    with pytest.raises(InputError, match="Linear with hooks"):
        head_of(model)
    hook.remove()
    assert head_of(model)[0] is model.lm_head.weight


def test_head_of_a_wrapped_model_is_refused_with_the_remedy():
    class DistributedDataParallel(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

    with pytest.raises(InputError, match="DistributedDataParallel wraps a model: pass the model within it"):
        head_of(DistributedDataParallel(tiny_model()))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft asks transformers in an old way
def test_head_with_a_lora_adapter_is_refused_and_one_without_is_not():
    peft = pytest.importorskip("peft")
    plain = peft.get_peft_model(tiny_model(), peft.LoraConfig(r=2, target_modules=["q_proj"]))
    assert head_of(plain)[0].shape == (259, 16)
    model = tiny_model()
    model.config.tie_word_embeddings = False
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["lm_head"]))
    with pytest.raises(InputError, match="peft"):
        head_of(adapted)


class Watch(TorchDispatchMode):
    """Counts what makes a GPU wait: values or shapes that the host has to know."""

    def __init__(self):
        super().__init__()
        self.waits = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.waits += function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", LOSSES)
def test_lean_loss_waits_at_most_once_and_not_at_all_with_the_count(name):
    hidden, weight, _, labels = draw()
    embedding = weight.detach() if name == "emo" else None
    options = {"embedding": embedding, "validate": False}
    for count, waits in ((None, 1), (int((labels != IGNORE).sum()), 0)):
        with Watch() as watch:
            lean_loss(name, hidden, weight, labels, VOCAB, n_supervised=count, **options).total.backward()
        assert watch.waits == waits
