"""What a model says about digits: logits at chosen positions, what ten of them mean, and greedy text."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from delcore.data import pad_id
from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.losses import entropy_nats

PLAIN: dict[str, Any] = {
    **{"do_sample": False, "num_beams": 1, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0},
    **{"min_length": 0, "min_new_tokens": 0},
}
"""The most probable token each time, whatever a model's generation_config.json asks for: Qwen2.5-Instruct's, for one,
has a repetition penalty, which would act without sampling too."""


class DigitReadout(NamedTuple):
    """What some rows of logits say about digits; the first is [rows, 10], the others [rows].

    Args:
        log_probs: logarithm of p̂, the probability of each digit given that the token is one.
        mass: share of the full softmax on the ten digits.
        entropy_nats: of p̂, from 0 to ln 10.
        expected_digit: Σ k·p̂_k, from 0 to 9.
        level: log-sum of the ten digit logits: their common height, which only DEL's sigmoid sees.
    """

    log_probs: Tensor
    mass: Tensor
    entropy_nats: Tensor
    expected_digit: Tensor
    level: Tensor


def read_digits(logits: Float[Tensor, "rows vocab"], vocab: DigitVocab) -> DigitReadout:
    """Read the digits off full logits.

    Raises:
        InputError: NaN or infinite scores, or digit ids beyond the head. A score of −inf only means that a token is
            impossible.
    """
    if max(vocab.ids) >= logits.shape[-1]:
        raise InputError(
            f"The model has {logits.shape[-1]} output columns, but its tokenizer puts a digit at {max(vocab.ids)}: "
            "they do not belong together."
        )
    digits = logits[:, vocab.index(logits.device)]
    if bool((logits.isnan() | logits.isposinf()).any()) or not bool(digits.isfinite().any(-1).all()):
        raise InputError("The model answered with NaN or infinite scores; its weights are damaged.")
    log_probs = digits.log_softmax(-1)
    level = digits.logsumexp(-1)
    return DigitReadout(
        log_probs,
        mass=(level - logits.logsumexp(-1)).exp(),
        entropy_nats=entropy_nats(log_probs).clamp(min=0),
        expected_digit=(log_probs.exp() * torch.arange(10, dtype=log_probs.dtype, device=log_probs.device)).sum(-1),
        level=level,
    )


def prompt_ids(tokenizer: Any, prompt: str, *, special: bool = False) -> list[int]:
    """Token ids of a prompt, without the end token that some tokenizers put behind every text.

    Args:
        tokenizer: a Hugging Face tokenizer.
        prompt: any text.
        special: whether "<|im_end|>" and its like in it are tokens rather than text.
    """
    ids = list(tokenizer(prompt, split_special_tokens=not special, verbose=False)["input_ids"])
    return ids[:-1] if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id else ids


@torch.inference_mode()
def logits_after(model: Any, ids: Sequence[int], rows: Sequence[int]) -> Float[Tensor, "rows vocab"]:
    """Logits that follow some tokens of one text, in float64 on the CPU."""
    batch = torch.tensor([list(ids)], device=model.device)
    return model(input_ids=batch, use_cache=False).logits[0, list(rows)].double().cpu()


def write_greedily(model: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[str]:
    """The greedy continuation of each tokenised prompt as text, up to its end token; otherwise as `append_greedily`."""
    new = append_greedily(model, tokenizer, prompts, max_new_tokens)
    texts: list[str] = tokenizer.batch_decode(new, skip_special_tokens=True)
    return texts


@torch.inference_mode()
def append_greedily(
    model: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], max_new_tokens: int, **generation: Any
) -> Int[Tensor, "prompts new"]:
    """The tokens that follow each tokenised prompt; prompts are padded on the left, what has ended on the right.

    Args:
        model: a causal language model.
        tokenizer: its tokenizer.
        prompts: token ids; none may be empty.
        max_new_tokens: at most so many.
        **generation: more for the model's `generate`, such as `stopping_criteria`.
    """
    length, pad = max(map(len, prompts)), pad_id(tokenizer)
    rows = torch.tensor([[pad] * (length - len(row)) + list(row) for row in prompts], device=model.device)
    mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in prompts], device=model.device)
    out = model.generate(
        input_ids=rows,
        attention_mask=mask,
        max_new_tokens=max_new_tokens,
        pad_token_id=pad,
        **{**PLAIN, **generation},
    )
    return out[:, length:]
