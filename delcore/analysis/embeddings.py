"""The vectors that a model has for the ten digits: input, output, and contextual states in two kinds of context."""

import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from delcore.analysis.outcomes import DigitEmbeddings
from delcore.analysis.results import Provenance
from delcore.arithmetic import KINDS, Sample, arithmetic_sample
from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.fingerprints import fingerprint_texts
from delcore.models import LoadedModel
from delcore.readout import prompt_ids

CONTEXTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "number": (
            "The bag weighs ",
            "There are ",
            "She bought 1",
            "12 + 35 = 4",
            "The temperature rose by ",
            "He ran for 2",
            "The price is $",
            "Pi is about 3.1",
            "A year later the tree had grown by 0.",
            "Together they have ",
            "Divide 84 by ",
            "It took 3",
        ),
        "symbol": (
            "Call me at 555-01",
            "Her PIN is 4",
            "The flight is LH",
            "order number A-20",
            "Take bus line ",
            "The file is named scan_00",
            "The password is xk",
            "date 2024-0",
            "Room B",
            "The licence plate reads HX ",
            "The channel is set to ",
            "He wears the jersey with the number ",
        ),
    }
)
"""What may precede a digit that counts something, and one that names something; written for general language models."""


def load_table(loaded: LoadedModel, kind: str) -> DigitEmbeddings:
    """The ten rows of the input or output embedding.

    Args:
        loaded: the model.
        kind: "input" or "output"; the same numbers where the model ties them.

    Raises:
        InputError: another kind, or a tokenizer without the ten digits.
    """
    if kind not in ("input", "output"):
        raise InputError(f'`kind` must be "input" or "output"; got {kind!r}.')
    model, tokenizer, card = loaded
    vocab = DigitVocab.from_tokenizer(tokenizer)
    table = model.get_input_embeddings() if kind == "input" else model.get_output_embeddings()
    vectors = table.weight.detach()[vocab.index(table.weight.device)].double().cpu().numpy()
    provenance = Provenance(card.name, card.revision, f"{kind} embedding")
    return DigitEmbeddings(vectors, kind, "", None, _is_tied(model), 0, provenance)


@torch.inference_mode()
def read_states(
    loaded: LoadedModel, context: str, prefixes: Sequence[str] | None = None, *, seed: int | None = None
) -> list[DigitEmbeddings]:
    """The mean state at a digit's own position over some contexts, for every layer.

    Each context is completed by each of the ten digits, so the digits differ in nothing but themselves.

    Args:
        loaded: the model.
        context: "number" or "symbol", for the record.
        prefixes: what precedes the digit; None for `CONTEXTS[context]`.
        seed: the prefixes were drawn with.

    Returns:
        One result per layer, the input embedding first and the last layer (after the final norm) last.

    Raises:
        InputError: an unknown context, or no prefixes.
    """
    if context not in CONTEXTS:
        raise InputError(f"`context` must be one of {', '.join(CONTEXTS)}; got {context!r}.")
    texts = CONTEXTS[context] if prefixes is None else tuple(prefixes)
    if not texts:
        raise InputError("`prefixes` must not be empty.")
    model, tokenizer, card = loaded
    digits = DigitVocab.from_tokenizer(tokenizer).ids
    sums: NDArray[np.float64] | float = 0.0
    for text in texts:
        ids = prompt_ids(tokenizer, text)
        rows = torch.tensor([[*ids, digit] for digit in digits], device=model.device)
        states = model(input_ids=rows, output_hidden_states=True, use_cache=False).hidden_states
        sums = sums + torch.stack([layer[:, -1] for layer in states]).double().cpu().numpy()  # [layer, 10, width]
    means = np.asarray(sums) / len(texts)
    sha256 = fingerprint_texts([Sample(text, "") for text in texts])
    provenance = Provenance(card.name, card.revision, f"{len(texts)} {context} contexts", sha256, seed)
    tied = _is_tied(model)
    return [
        DigitEmbeddings(vectors, "contextual", context, layer, tied, len(texts), provenance)
        for layer, vectors in enumerate(means)
    ]


def generated_contexts(context: str, count: int = 24, seed: int = 0) -> list[str]:
    """Prefixes from the generator of the embedded family, each cut before a digit of its response.

    Args:
        context: "number" takes sums, products, decimals, word problems and readings; "symbol" dates and identifiers.
        count: how many.
        seed: of the choice.

    Raises:
        InputError: an unknown context.
    """
    if context not in CONTEXTS:
        raise InputError(f"`context` must be one of {', '.join(CONTEXTS)}; got {context!r}.")
    kinds = ["symbols"] if context == "symbol" else [kind for kind in KINDS if kind != "symbols"]
    rng = random.Random(f"{seed}/{context}")  # noqa: S311 - a choice, no secret
    found = []
    for index in range(count):
        sample = arithmetic_sample(index, seed, "heldout", kinds[index % len(kinds)])
        cut = rng.choice([i for i, character in enumerate(sample.response) if character.isdigit()])
        found.append(sample.prompt + sample.response[:cut])
    return found


def _is_tied(model: Any) -> bool:
    return model.get_input_embeddings().weight is model.get_output_embeddings().weight
