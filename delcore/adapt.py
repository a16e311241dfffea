"""The model as it is trained: its precision, adapters and what it keeps for the backward pass."""

from typing import Any

import torch

from delcore.config import TrainConfig
from delcore.errors import InputError
from delcore.pretrained import without_peft_warning


def adapt(model: Any, config: TrainConfig) -> Any:
    """The model as it is trained: its precision, adapters and what it keeps for the backward pass."""
    if config.precision == "bf16":
        model.to(torch.bfloat16)
    if config.gradient_checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})
    if config.lora_rank:
        model = add_lora(model, config)
    return model.train()


def add_lora(model: Any, config: TrainConfig) -> Any:
    """The model with trainable LoRA adapters on all linear layers but the head, and all else frozen."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise InputError("`--lora-rank` needs a package more: pip install peft") from None
    width = model.get_input_embeddings().weight.shape[1]
    if config.lora_rank > width:
        raise InputError(f"`--lora-rank` must be at most the model's width, {width}; got {config.lora_rank}.")
    lora = LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha or 2 * config.lora_rank,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    try:
        with without_peft_warning():
            return get_peft_model(model, lora)
    except ValueError as error:  # layers that adapters do not fit, as Mamba's
        raise InputError(f"`--lora-rank` does not go with this model: {str(error).splitlines()[0][:300]}") from error
