"""Every recipe makes a run: its optimiser, its steps and its learning rate, for the stated size of its data."""

import math

import pytest

from delcore import InputError, TrainConfig
from delcore.recipes import MATH_INSTRUCT_ROWS, RECIPES, config_from
from delcore.train import learning_rate_factor

ROWS = {"TIGER-Lab/MathInstruct": MATH_INSTRUCT_ROWS, "openai/gsm8k:main": 7473}
PAPER = {
    "paper-qwen2.5-1.5b": (128, 5e-6, 4095, 123),
    "paper-deepseek-math-7b": (256, 5e-6, 2048, 61),
    "paper-mistral-7b": (256, 5e-6, 2048, 61),
    "paper-codellama-7b": (128, 2e-5, 4095, 123),
}
"""Samples per step, peak learning rate, steps and steps of warm-up, worked by hand from 262,039 rows twice."""


def steps_of(config: TrainConfig) -> int:
    return config.steps if config.epochs is None else math.ceil(config.epochs * ROWS[config.data] / config.batch_size)


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_rises_to_its_peak_and_falls_to_nothing(name, tmp_path):
    config = config_from(name, loss="del", out=tmp_path)
    steps = steps_of(config)
    config = config_from(name, loss="del", out=tmp_path, steps=steps)
    factors = [learning_rate_factor(step, config) for step in range(steps)]
    rise = round(config.warmup * steps)
    assert factors[0] == pytest.approx(1 / rise if rise else 1)
    assert factors[max(rise - 1, 0)] == max(factors) == 1
    assert factors == sorted(factors[:rise]) + sorted(factors[rise:], reverse=True)
    assert 0 < factors[-1] < 2e-3


@pytest.mark.parametrize("name", PAPER)
def test_paper_recipe_has_the_published_settings(name, tmp_path):
    batch, rate, steps, rise = PAPER[name]
    config = config_from(name, loss="mle", out=tmp_path)
    assert (config.batch_size, config.learning_rate, steps_of(config)) == (batch, rate, steps)
    assert round(config.warmup * steps) == rise
    assert (config.weight_decay, config.max_length, config.epochs, config.precision) == (0, 1500, 2, "bf16-mixed")
    assert config.template == "alpaca"


def test_given_settings_win_over_the_recipe(tmp_path):
    config = config_from("qwen2.5-0.5b-lora", loss="del", out=tmp_path, lora_rank=2, steps=7)
    assert (config.lora_rank, config.steps, config.epochs, config.batch_size) == (2, 7, None, 32)


def test_unknown_recipe_is_an_error_that_lists_them(tmp_path):
    with pytest.raises(InputError, match="`--recipe` must be one of paper-qwen2.5-1.5b"):
        config_from("qwen", loss="del", out=tmp_path)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_recipe_says_what_it_ran_on(recipe):
    assert recipe.needs
    assert recipe.run_on
