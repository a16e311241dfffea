"""How a model is made to write plainly, and what it can be given: its own token ids, and padding if it knows a mask."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import GenerationConfig

from delcore.data import pad_id
from delcore.errors import InputError


@contextmanager
def plain_generation(model: Any, tokenizer: Any) -> Iterator[None]:
    """Within it a model writes the most probable token each time, whatever its generation_config.json asks for.

    Some ask for a repetition penalty or for suppressed tokens, which act without sampling too, and all that is not
    asked for in a call is taken from there.
    """
    own = model.generation_config
    ends = sorted(end_ids(model, tokenizer))
    model.generation_config = GenerationConfig(eos_token_id=ends or None, pad_token_id=readable_pad(model, tokenizer))
    try:
        yield
    finally:
        model.generation_config = own


def end_ids(model: Any, tokenizer: Any) -> set[int]:
    """The tokens that end a text, as model and tokenizer have them."""
    ends = getattr(model.generation_config, "eos_token_id", None)
    return {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id} - {None}


# ---------------------------------------------------------------- token ids and padding


def check_ids(model: Any, rows: Sequence[Sequence[int]]) -> None:
    """Refuse token ids that a model does not have, which would end in an index error, or on a GPU in a crash.

    Raises:
        InputError: there is one.
    """
    size, top = _embedding_rows(model), max((max(row) for row in rows if row), default=0)
    if top >= size:
        raise InputError(
            f"The model has {size} embedding rows, but its tokenizer writes this text with the token id {top}: they do "
            "not belong together. Take the tokenizer that came with the model."
        )


def _embedding_rows(model: Any) -> int:
    return int(model.get_input_embeddings().weight.shape[0])


def readable_pad(model: Any, tokenizer: Any) -> int:
    """The token to pad with; another if the model does not have it, as masks hide what it is."""
    pad = pad_id(tokenizer)
    return pad if pad < _embedding_rows(model) else 0


PROBED_TOKENS = 16
PROBED_PADDING = 5
_ALIKE: "WeakKeyDictionary[Any, bool]" = WeakKeyDictionary()


@torch.inference_mode()
def answers_alike(model: Any, tokenizer: Any, prompt: Sequence[int]) -> bool:
    """Whether a prompt is answered in a batch, padded on the left, as it is alone; tried once for each model.

    Models with a state that runs over every token may know no mask, and take padding for text; others mix up the
    states of a batch (RWKV in transformers 5 does both). The scores of the next two tokens are compared.

    Args:
        model: a causal language model.
        tokenizer: its tokenizer.
        prompt: token ids to try it with; the first few will do.
    """
    if model not in _ALIKE:
        row, pad = list(prompt[:PROBED_TOKENS]), [readable_pad(model, tokenizer)] * PROBED_PADDING
        neighbour = (row * (1 + PROBED_PADDING))[: len(pad) + len(row)]
        mask = [[0] * len(pad) + [1] * len(row), [1] * len(neighbour)]
        alone, first = _next_logits(model, tokenizer, [row], [[1] * len(row)])
        padded, second = _next_logits(model, tokenizer, [pad + row, neighbour], mask)
        tolerance = max(1e-3, 16 * torch.finfo(model.dtype).eps) * (alone.max() - alone.min())
        steps = min(len(alone), len(padded)) if first == second else 1
        # Not "at most": of damaged weights, which answer with NaN, others have to tell.
        _ALIKE[model] = not bool((padded[:steps] - alone[:steps]).abs().max() > tolerance)
    return _ALIKE[model]


def _next_logits(
    model: Any, tokenizer: Any, rows: Sequence[Sequence[int]], mask: Sequence[Sequence[int]]
) -> tuple[Float[Tensor, "steps vocab"], int]:
    """Logits of the next two tokens of the first row, reached as text is generated, and the first of these tokens."""
    with plain_generation(model, tokenizer):
        out = model.generate(
            input_ids=torch.tensor(rows, device=model.device),
            attention_mask=torch.tensor(mask, device=model.device),
            max_new_tokens=2,
            output_logits=True,
            return_dict_in_generate=True,
        )
    return torch.stack([step[0] for step in out.logits]).double(), int(out.sequences[0, len(rows[0])])
