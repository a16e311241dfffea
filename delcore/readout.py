"""What a model says about digits: logits at chosen positions, what ten of them mean, and greedy text."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.generation import answers_alike, check_ids, end_ids, plain_generation, readable_pad
from delcore.losses import entropy_nats

DAMAGED = "The model answered with NaN or infinite scores; its weights are damaged."


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
        raise InputError(DAMAGED)
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
    check_ids(model, [ids])
    batch = torch.tensor([list(ids)], device=model.device)
    return model(input_ids=batch, use_cache=False).logits[0, list(rows)].double().cpu()


def write_greedily(model: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[str]:
    """The greedy continuation of each tokenised prompt as text, up to its end token; otherwise as `append_greedily`."""
    new = append_greedily(model, tokenizer, prompts, max_new_tokens)
    texts: list[str] = tokenizer.batch_decode(new, skip_special_tokens=True)
    return texts


@torch.inference_mode()
def append_greedily(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    is_over: Callable[[Sequence[int]], bool] = lambda new: False,
    stopped: Callable[[], bool] = lambda: False,
) -> list[list[int]]:
    """The tokens that follow each tokenised prompt, up to its end token.

    Prompts are padded on the left, or asked one by one where a model's answers would depend on that. Whenever half of
    them have ended, the others go on in a batch of their own, with what the model has kept of them.

    Args:
        model: a causal language model.
        tokenizer: its tokenizer.
        prompts: token ids; none may be empty.
        max_new_tokens: at most so many.
        is_over: whether a prompt's new tokens are enough, asked after each of them.
        stopped: asked after every token; once it says yes, all end where they are.

    Raises:
        InputError: NaN or infinite scores, or token ids that the model does not have.
    """
    check_ids(model, prompts)
    if len(prompts) > 1 and not answers_alike(model, tokenizer, prompts[0]):
        return [_append_padded(model, tokenizer, [one], max_new_tokens, is_over, stopped)[0] for one in prompts]
    return _append_padded(model, tokenizer, prompts, max_new_tokens, is_over, stopped)


def _append_padded(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    is_over: Callable[[Sequence[int]], bool],
    stopped: Callable[[], bool],
) -> list[list[int]]:
    """`append_greedily` for prompts that may share a batch."""
    length, pad = max(map(len, prompts)), readable_pad(model, tokenizer)
    rows = torch.tensor([[pad] * (length - len(row)) + list(row) for row in prompts], device=model.device)
    mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in prompts], device=model.device)
    ends = end_ids(model, tokenizer)
    new: dict[int, list[int]] = {}
    waiting, cache = list(range(len(prompts))), None
    while waiting:
        watch = _Watch(length, lambda row: row[-1] in ends or len(row) >= max_new_tokens or is_over(row), stopped)
        with plain_generation(model, tokenizer):
            out = model.generate(
                input_ids=rows,
                attention_mask=mask,
                cache=cache,
                max_new_tokens=max_new_tokens - (rows.shape[1] - length),
                stopping_criteria=StoppingCriteriaList([watch]),
                logits_processor=LogitsProcessorList([_Sound(watch)]),
                return_dict_in_generate=True,
            )
        cache = out.get("cache")
        for row in range(len(waiting)) if stopped() else watch.lengths:
            kept = watch.lengths.get(row)
            new[waiting[row]] = out.sequences[row, length:][:kept].tolist()
        on = [row for row in range(len(waiting)) if waiting[row] not in new]
        waiting = [waiting[row] for row in on]
        if waiting:
            cache = cache if hasattr(cache, "batch_select_indices") else None  # None: read it all again
            if cache is not None:
                cache.batch_select_indices(torch.tensor(on, device=rows.device))
            rows = out.sequences[on]
            mask = nn.functional.pad(mask[on], (0, rows.shape[1] - mask.shape[1]), value=1)
    return [new[i] for i in range(len(prompts))]


# ---------------------------------------------------------------- watching a batch


class _Watch(StoppingCriteria):
    """Notes where each row of a batch ends, and ends them all once half of them have."""

    def __init__(self, start: int, is_over: Callable[[list[int]], bool], stopped: Callable[[], bool]) -> None:
        """Watch the columns from `start` on."""
        self.start, self.is_over, self.stopped = start, is_over, stopped
        self.lengths: dict[int, int] = {}

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """Which rows are done, after each token."""
        for row, new in enumerate(input_ids[:, self.start :].tolist()):
            if row not in self.lengths and self.is_over(new):
                self.lengths[row] = len(new)
        enough = self.stopped() or 2 * len(self.lengths) >= len(input_ids)
        return torch.tensor([enough or row in self.lengths for row in range(len(input_ids))], device=input_ids.device)


class _Sound(LogitsProcessor):
    """Refuses scores from which no token can be chosen; rows that have ended are padding and may hold anything."""

    def __init__(self, watch: _Watch) -> None:
        """Ask `watch` which rows have ended."""
        self.watch = watch

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """The scores as they are."""
        damaged = (scores.isnan() | scores.isposinf()).any(-1).tolist()
        if any(bad and row not in self.watch.lengths for row, bad in enumerate(damaged)):
            raise InputError(DAMAGED)
        return scores
