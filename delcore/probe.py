"""What digits does a model expect? The ten digit probabilities along a prompt, as plain data."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from delcore.digits import DigitVocab, digit_places, place_of_next, place_weight
from delcore.errors import InputError
from delcore.models import LoadedModel


@dataclass(frozen=True)
class DigitPosition:
    """The prediction of one model at one place of a prompt.

    Args:
        index: token position in the prompt; the number of its tokens for the next token.
        text: the digit that stands there; "" for the next token.
        place: 0 for units, −1 for tenths …; None where the text does not settle it.
        weight: DEL's weight of that place; None where the place is.
        probabilities: p̂ of the digits 0 … 9, given that the token is a digit; they sum to 1.
        digit_mass: share of the full softmax on the ten digits.
        entropy_nats: of `probabilities`, from 0 to ln 10 = 2.3026.
        expected_digit: Σ k·p̂_k, from 0 to 9.
    """

    index: int
    text: str
    place: int | None
    weight: float | None
    probabilities: tuple[float, ...]
    digit_mass: float
    entropy_nats: float
    expected_digit: float


def digit_distributions(
    model: Any, tokenizer: Any, prompt: str, *, all_positions: bool = False, continuation: str = ""
) -> list[DigitPosition]:
    """The digit probabilities of the next token, last in the list, and of the digits before it.

    Args:
        model: a causal language model.
        tokenizer: its tokenizer, with one token per digit.
        prompt: any text but an empty one.
        all_positions: also each digit of the prompt, as predicted from what precedes it. A digit that is the
            model's very first token is left out: nothing predicts it.
        continuation: text after the prompt whose digits are always listed, as "47" after "12 + 35 = "; the next
            token is then the one after it.

    Raises:
        InputError: an empty prompt, one longer than the model's context, or a tokenizer without digits.
    """
    vocab = DigitVocab.from_tokenizer(tokenizer)
    ids, start = encode_prompt(model, tokenizer, prompt, continuation)
    logits = prompt_logits(model, ids)  # [seq, vocab]
    row = torch.tensor([ids])
    places = digit_places(row, vocab)[0].tolist()
    digits = vocab.classes(row)[0].tolist()
    first_listed = 1 if all_positions else start
    listed = [i for i in range(max(first_listed, 1), len(ids)) if digits[i] >= 0]
    positions = [_position(logits[i - 1], vocab, index=i, text=str(digits[i]), place=places[i]) for i in listed]
    return [*positions, _position(logits[-1], vocab, index=len(ids), text="", place=place_of_next(ids, vocab))]


def encode_prompt(model: Any, tokenizer: Any, prompt: str, continuation: str = "") -> tuple[list[int], int]:
    """Token ids of a prompt (and what follows it), and how many of them are the prompt's; refuses unusable ones."""
    if not prompt.strip():
        raise InputError('The prompt is empty. Type some text, such as "12 + 35 = ".')
    ids = list(tokenizer(prompt, verbose=False)["input_ids"])
    if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id:
        ids = ids[:-1]
    start = len(ids)
    if continuation:
        ids += tokenizer(continuation, add_special_tokens=False, verbose=False)["input_ids"]
    limit = getattr(model.config, "max_position_embeddings", None)
    if limit and len(ids) > limit:
        raise InputError(
            f"The prompt has {len(ids):,} tokens, the limit is {limit:,}: shorten it by {len(ids) - limit:,}."
        )
    return ids, start


@torch.inference_mode()
def prompt_logits(model: Any, ids: Sequence[int]) -> Float[Tensor, "seq vocab"]:
    """Logits of every position of one text, in float32 on the CPU."""
    row = torch.tensor([list(ids)], device=model.device)
    return model(input_ids=row, use_cache=False).logits[0].float().cpu()


def _position(logits: Tensor, vocab: DigitVocab, *, index: int, text: str, place: int | None) -> DigitPosition:
    logits = logits.double()
    digits = logits[vocab.index(logits.device)]
    if not torch.isfinite(digits).any() or torch.isnan(logits).any():
        raise InputError("The model answered with NaN or infinite scores; its weights are damaged.")
    log_probs = digits.log_softmax(-1)
    probabilities = log_probs.exp()
    entropy = -(probabilities * log_probs.masked_fill(log_probs.isinf(), 0.0)).sum()
    return DigitPosition(
        index=index,
        text=text,
        place=place,
        weight=None if place is None else place_weight(place),
        probabilities=tuple(probabilities.tolist()),
        digit_mass=math.exp(float(digits.logsumexp(-1) - logits.logsumexp(-1))),
        entropy_nats=max(float(entropy), 0.0),
        expected_digit=float((probabilities * torch.arange(10.0, dtype=torch.float64)).sum()),
    )


def probe(
    prompt: str, models: Mapping[str, LoadedModel], *, all_positions: bool = False, continuation: str = ""
) -> dict[str, Any]:
    """The record that `delcore probe --json` prints: each position with the prediction of every model.

    Models with another tokenizer than the first are refused, as their positions would not be the same.
    """
    columns = {
        name: digit_distributions(
            loaded.model, loaded.tokenizer, prompt, all_positions=all_positions, continuation=continuation
        )
        for name, loaded in models.items()
    }
    first = next(iter(columns.values()))
    for name, column in columns.items():
        if [(p.index, p.text) for p in column] != [(p.index, p.text) for p in first]:
            raise InputError(f"`{name}` splits this prompt into other tokens than `{next(iter(columns))}` does.")
    return {"prompt": prompt, "positions": [_row(i, columns) for i in range(len(first))]}


def _row(i: int, columns: Mapping[str, list[DigitPosition]]) -> dict[str, Any]:
    shared = ("index", "text", "place", "weight")
    facts = {name: dataclasses.asdict(column[i]) for name, column in columns.items()}
    row: dict[str, Any] = {key: next(iter(facts.values()))[key] for key in shared}
    row["models"] = {
        name: {
            key: list(value) if key == "probabilities" else value for key, value in fact.items() if key not in shared
        }
        for name, fact in facts.items()
    }
    return row


@torch.inference_mode()
def continue_greedily(model: Any, tokenizer: Any, prompt: str, *, max_new_tokens: int = 16) -> str:
    """The text that the model would write next, always taking its most probable token, up to its end token."""
    ids, _ = encode_prompt(model, tokenizer, prompt)
    room = getattr(model.config, "max_position_embeddings", len(ids) + max_new_tokens) - len(ids)
    if room <= 0:
        return ""
    row = torch.tensor([ids], device=model.device)
    out = model.generate(
        input_ids=row,
        attention_mask=torch.ones_like(row),
        max_new_tokens=min(max_new_tokens, room),
        do_sample=False,
        num_beams=1,
        pad_token_id=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id,
    )
    return tokenizer.decode(out[0, len(ids) :], skip_special_tokens=True)
