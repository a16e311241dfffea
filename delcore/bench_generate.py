"""What batching is worth: items per second of `delcore evaluate` against a plain `generate` loop, side by side.

    delcore bench generate --model FILE.gguf --benchmark gsm8k --data-dir FOLDER --limit 16 --max-new-tokens 64

Both answer the same tokens greedily with the same settings, in turns. The loop takes one prompt at a time and stops at
the end token alone, so batches may also gain by stopping at markers; tokens per second leave that out.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

from delcore.bench import format_ratios, format_spread, machine, spread
from delcore.benchmarks.generate import answer_greedily
from delcore.benchmarks.prompts import CUTS
from delcore.benchmarks.settings import EvaluationConfig
from delcore.benchmarks.tasks import get_task, load_task
from delcore.errors import InputError
from delcore.generation import plain_generation
from delcore.models import LoadedModel, load_model
from delcore.prepare import pick_device
from delcore.readout import prompt_ids

Speed = dict[str, float]


def bench_generation(
    config: EvaluationConfig, rounds: int = 3, progress: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Answer a benchmark's prompts in batches and one by one, in turns.

    Args:
        config: what to answer: one benchmark, with a limit.
        rounds: turns that count, after one of a single batch that does not.
        progress: called with one line of text from time to time.

    Returns:
        The settings, the machine, and median, lowest and highest ratio of items and tokens per second.
    """
    if rounds < 1 or len(config.benchmarks) != 1:
        raise InputError("`--rounds` must be at least 1, and `--benchmark` must name one.")
    (name,) = config.benchmarks
    room = config.max_new_tokens or get_task(name).max_new_tokens
    prompts = {i: item.prompt for i, item in enumerate(load_task(name, config.data_dir, config.limit))}
    loaded = load_model(config.model, trust_remote_code=config.trust_remote_code)
    device = pick_device(config.device)
    loaded.model.to(device, getattr(torch, config.dtype))
    few = dict(list(prompts.items())[: config.batch_size])
    _in_batches(loaded, few, room, config.batch_size)
    turns = []
    for number in range(1, rounds + 1):
        turns.append((_in_batches(loaded, prompts, room, config.batch_size), _one_by_one(loaded, prompts, room)))
        if progress:
            progress(f"round {number}/{rounds}")
    return {
        "settings": {"model": loaded.card.name, "benchmark": name, "items": len(prompts)}
        | {"batch_size": config.batch_size, "max_new_tokens": room, "rounds": rounds},
        "machine": machine(str(device)),
        **{key: spread([ours[key] / other[key] for ours, other in turns]) for key in turns[0][0]},
    }


def _in_batches(loaded: LoadedModel, prompts: dict[int, str], room: int, size: int) -> Speed:
    started = time.perf_counter()
    batches = answer_greedily(
        loaded.model,
        loaded.tokenizer,
        prompts,
        cut=CUTS["text"],
        max_new_tokens=room,
        batch_size=size,
        context=loaded.card.context,
    )
    tokens = sum(answer.tokens for batch in batches for _, answer in batch)
    return _speed(len(prompts), tokens, started)


@torch.inference_mode()
def _one_by_one(loaded: LoadedModel, prompts: dict[int, str], room: int) -> Speed:
    started = time.perf_counter()
    model, tokenizer, card = loaded
    tokens = 0
    for prompt in prompts.values():
        ids = torch.tensor([prompt_ids(tokenizer, prompt)], device=model.device)
        length = ids.shape[1]
        if not 0 < length < card.context:
            continue  # as in batches: such a prompt gets no answer
        space = min(room, card.context - length)
        with plain_generation(model, tokenizer):
            out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=space)
        tokens += out.shape[1] - length
        tokenizer.decode(out[0, length:], skip_special_tokens=True)
    return _speed(len(prompts), tokens, started)


def _speed(items: int, tokens: int, started: float) -> Speed:
    seconds = time.perf_counter() - started
    return {"items_per_second": items / seconds, "tokens_per_second": tokens / seconds}


def format_generation(result: dict[str, Any]) -> str:
    """The ratios as a table for people."""
    lines = []
    for key in ("items_per_second", "tokens_per_second"):
        lines.append(f"{key.replace('_', ' ') + ', against one by one':<40}{format_spread(result[key])}")
    return format_ratios(result["machine"], result["settings"], lines)
