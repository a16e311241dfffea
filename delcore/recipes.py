"""Named settings of `delcore train --recipe NAME`: the paper's four models, and small ones.

What a recipe sets, a flag of the command line overrides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from delcore.config import TrainConfig
from delcore.errors import InputError

MATH_INSTRUCT = "TIGER-Lab/MathInstruct"
MATH_INSTRUCT_ROWS = 262_039
"""Rows of its training split."""


@dataclass(frozen=True)
class Recipe:
    """Settings under one name.

    Args:
        name: as on the command line.
        settings: fields of `TrainConfig`.
        needs: what it is meant to run on.
        run_on: what it was really run on by us; "not run" where it was not.
        departures: from its source, if it has one.
    """

    name: str
    settings: Mapping[str, Any]
    needs: str
    run_on: str = "not run"
    departures: str = ""


PAPER = {
    "data": MATH_INSTRUCT,
    "template": "alpaca",
    "epochs": 2.0,
    "micro_batch_size": 1,
    "warmup": 0.03,
    "weight_decay": 0.0,
    "beta2": 0.999,
    "clip": 1.0,
    "max_length": 1500,
    "precision": "bf16-mixed",
    "gradient_checkpointing": True,
    "save_every": 500,
}
"""The four scripts of PolyU-VCLab/DEL 68c3d4d, as far as they agree."""

DEPARTURES = (
    "one prompt template where the scripts draw one of several per sample; gradient checkpointing; steps are "
    "counted over whole epochs, where the scripts begin each epoch with a new step"
)


def _paper(name: str, model: str, learning_rate: float, gpus: int) -> Recipe:
    settings = {**PAPER, "model": model, "learning_rate": learning_rate, "batch_size": 32 * gpus}
    return Recipe(name, MappingProxyType(settings), f"{gpus} GPUs of 80 GB, with FSDP", departures=DEPARTURES)


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        recipe.name: recipe
        for recipe in (
            _paper("paper-qwen2.5-1.5b", "Qwen/Qwen2.5-1.5B", 5e-6, 4),
            _paper("paper-deepseek-math-7b", "deepseek-ai/deepseek-math-7b-instruct", 5e-6, 8),
            _paper("paper-mistral-7b", "mistralai/Mistral-7B-v0.1", 5e-6, 8),
            _paper("paper-codellama-7b", "codellama/CodeLlama-7b-hf", 2e-5, 4),
            Recipe(
                "embedded",
                MappingProxyType(
                    {"model": "embedded", "data": "arithmetic", "steps": 1000, "batch_size": 64, "clip": 0.0}
                    | {"learning_rate": 3e-4, "seed": 1, "log_every": 10}
                ),
                "two CPU cores, four minutes",
                "two CPU cores",
            ),
            Recipe(
                "smollm2-lora",
                MappingProxyType(
                    {"model": "HuggingFaceTB/SmolLM2-135M-Instruct", "data": "openai/gsm8k:main", "template": "alpaca"}
                    | {"steps": 100, "batch_size": 8, "micro_batch_size": 4, "learning_rate": 1e-3, "lora_rank": 4}
                    | {"max_length": 512, "save_every": 20}
                ),
                "two CPU cores, a quarter of an hour; model and data from files where there is no hub",
                "two CPU cores, with --model and --data from files",
            ),
            Recipe(
                "qwen2.5-0.5b-lora",
                MappingProxyType(
                    {"model": "Qwen/Qwen2.5-0.5B", "data": "openai/gsm8k:main", "template": "alpaca", "epochs": 2.0}
                    | {"batch_size": 32, "micro_batch_size": 8, "learning_rate": 2e-4, "lora_rank": 16}
                    | {"precision": "bf16-mixed", "max_length": 768, "save_every": 100}
                ),
                "one GPU of 8 GB",
            ),
            Recipe(
                "qwen2.5-1.5b",
                MappingProxyType(
                    {"model": "Qwen/Qwen2.5-1.5B", "data": MATH_INSTRUCT, "template": "alpaca", "epochs": 2.0}
                    | {"batch_size": 128, "micro_batch_size": 8, "learning_rate": 5e-6, "precision": "bf16-mixed"}
                    | {"gradient_checkpointing": True, "max_length": 1500, "beta2": 0.999, "save_every": 200}
                ),
                "one GPU of 80 GB",
            ),
        )
    }
)


def get_recipe(name: str) -> Recipe:
    """Look a recipe up by its name, or say which there are."""
    if name not in RECIPES:
        raise InputError(f"`--recipe` must be one of {', '.join(RECIPES)}; got {name!r}.")
    return RECIPES[name]


def config_from(recipe: str | None, **given: Any) -> TrainConfig:
    """A configuration from a recipe's settings and those that are given, which win.

    `steps` puts an end to a recipe's `epochs`.
    """
    settings = dict(get_recipe(recipe).settings) if recipe is not None else {}
    if "steps" in given and "epochs" not in given:
        settings.pop("epochs", None)
    return TrainConfig(**{**settings, **given})
