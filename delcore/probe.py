"""What digits does a model expect? The ten digit probabilities along a prompt, as plain data."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from delcore.digits import DigitVocab, digit_places, place_of_next, place_weight
from delcore.errors import InputError
from delcore.models import LoadedModel
from delcore.readout import logits_after, prompt_ids, read_digits, write_greedily


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
    row = torch.tensor([ids])
    places = digit_places(row, vocab)[0].tolist()
    digits = vocab.classes(row)[0].tolist()
    first_listed = max(1 if all_positions else start, 1)
    listed = [i for i in range(first_listed, len(ids)) if digits[i] >= 0]
    facts = _predictions(logits_after(model, ids, [*(i - 1 for i in listed), len(ids) - 1]), vocab)
    shown = [(i, str(digits[i]), places[i]) for i in listed] + [(len(ids), "", place_of_next(ids, vocab))]
    return [
        DigitPosition(index, text, place, None if place is None else place_weight(place), *fact)
        for (index, text, place), fact in zip(shown, facts, strict=True)
    ]


def encode_prompt(model: Any, tokenizer: Any, prompt: str, continuation: str = "") -> tuple[list[int], int]:
    """Token ids of a prompt (and what follows it), and how many of them are the prompt's; refuses unusable ones."""
    if not prompt.strip():
        raise InputError('The prompt is empty. Type some text, such as "12 + 35 = ".')
    try:
        (prompt + continuation).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"The prompt is no valid text: character {error.start + 1} is half of a pair.") from error
    ids = prompt_ids(tokenizer, prompt, special=True)
    start = len(ids)
    if continuation:
        ids += tokenizer(continuation, add_special_tokens=False, verbose=False)["input_ids"]
    limit = getattr(model.config, "max_position_embeddings", None)
    if limit and len(ids) > limit:
        raise InputError(
            f"The prompt has {len(ids):,} tokens, the limit is {limit:,}: shorten it by {len(ids) - limit:,}."
        )
    return ids, start


def _predictions(
    logits: Float[Tensor, "rows vocab"], vocab: DigitVocab
) -> Iterator[tuple[tuple[float, ...], float, float, float]]:
    """Probabilities, digit mass, entropy and expected digit of each row."""
    readout = read_digits(logits, vocab)
    probabilities = [tuple(row) for row in readout.log_probs.exp().tolist()]
    return zip(
        probabilities,
        readout.mass.tolist(),
        readout.entropy_nats.tolist(),
        readout.expected_digit.tolist(),
        strict=True,
    )


def probe(
    prompt: str, models: Mapping[str, LoadedModel], *, all_positions: bool = False, continuation: str = ""
) -> dict[str, Any]:
    """The record that `delcore probe --json` prints: each position with the prediction of every model.

    Models that split this text into other tokens than the first are refused: their positions are not the same.
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


def continue_greedily(model: Any, tokenizer: Any, prompt: str, *, max_new_tokens: int = 16) -> str:
    """The text that the model would write next, always taking its most probable token, up to its end token."""
    ids, _ = encode_prompt(model, tokenizer, prompt)
    room = getattr(model.config, "max_position_embeddings", len(ids) + max_new_tokens) - len(ids)
    return write_greedily(model, tokenizer, [ids], min(max_new_tokens, room))[0] if room > 0 else ""
