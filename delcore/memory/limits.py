"""What memory there is, and what to change in a run that needs more."""

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from delcore.config import TrainConfig
from delcore.errors import InputError
from delcore.memory.estimate import MemoryEstimate, format_bytes, format_parts

CGROUPS = Path("/sys/fs/cgroup")
VERSIONS = {
    True: ("memory.max", "memory.current", "inactive_file"),
    False: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Of control groups, the second and the first: files of limit and use, and the line of what can be reclaimed."""


def available_memory(device: torch.device) -> int | None:
    """Bytes that this process may still take: its share of what is free; None where the system does not tell."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    if device.type != "cpu":
        return None
    free = [*_free_of_machine(Path("/proc/meminfo")), *_free_of_groups(CGROUPS, Path("/proc/self/cgroup"))]
    return min(free) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if free else None


def _free_of_machine(meminfo: Path) -> Iterator[int]:
    for line in _lines(meminfo):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _free_of_groups(root: Path, own: Path) -> Iterator[int]:
    """What is left of the limit of each control group that this process is in."""
    for line in _lines(own):
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        base = root / controllers
        group = base / path.lstrip("/")
        for folder in (group, *(parent for parent in group.parents if parent.is_relative_to(base))):
            yield from _free_of_group(folder, *VERSIONS[controllers == ""])


def _free_of_group(folder: Path, limit: str, used: str, reclaimable: str) -> Iterator[int]:
    limits, uses = _lines(folder / limit), _lines(folder / used)
    if not limits or not uses or limits[0] == "max":
        return
    stat = dict(line.split() for line in _lines(folder / "memory.stat"))
    yield max(int(limits[0]) - int(uses[0]) + int(stat.get(reclaimable, 0)), 0)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


# ---------------------------------------------------------------- where it is not enough

SMALLEST_GAIN = 0.1
"""A remedy is named if it may save this share of the whole."""


def check_memory(estimate: MemoryEstimate, available: int | None, config: TrainConfig) -> None:
    """Refuse a run that needs more than there is, unless it is to start all the same.

    Args:
        estimate: of the run.
        available: bytes beyond what is held already, from `available_memory`; None lets every run pass.
        config: of the run.

    Raises:
        InputError: too little memory, with the arithmetic and what helps.
    """
    missing = estimate.total - estimate.held
    if available is None or missing <= available or config.ignore_memory:
        return
    kept = f"{format_bytes(estimate.held)} are held and " if estimate.held else ""
    raise InputError(
        f"The run needs about {format_bytes(estimate.total)} of memory, but {kept}{format_bytes(available)} are free: "
        f"{format_parts(estimate)}. {_remedies(estimate, config, available + estimate.held)} "
        "Or pass `--ignore-memory` to start all the same."
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory has run out, on a GPU or a CPU."""
    texts = ("not enough memory", "can't allocate memory", "out of memory")
    is_worded = isinstance(error, RuntimeError) and any(text in str(error).lower() for text in texts)
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or is_worded


def explain_out_of_memory(error: BaseException, estimate: MemoryEstimate, config: TrainConfig) -> InputError:
    """What to raise in place of an error that `is_out_of_memory`: the arithmetic, and what helps."""
    cause = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return InputError(
        f"Memory ran out ({cause}). The estimate was about {format_bytes(estimate.total)}: {format_parts(estimate)}. "
        f"{_remedies(estimate, config, None)}"
    )


def _remedies(estimate: MemoryEstimate, config: TrainConfig, room: int | None) -> str:
    """Changes of this run that take memory away, the most first; `room` is what there is in all, if it is known."""
    found = [*_other_remedies(estimate, config), *_smaller_micro_batch(estimate, room)]
    ranked = sorted((pair for pair in found if SMALLEST_GAIN * estimate.total <= pair[0]), reverse=True)
    listed = "; ".join(text for _, text in ranked)
    return f"What helps, the most first: {listed}." if listed else "Pick a smaller model."


def _smaller_micro_batch(estimate: MemoryEstimate, room: int | None) -> Iterator[tuple[int, str]]:
    """The largest micro-batch that fits, or half where nobody knows what does; ranked by what one sample would save."""
    sizes = range(estimate.micro_batch - 1, 0, -1) if room is not None else [estimate.micro_batch // 2]
    size = next((size for size in sizes if room is None or estimate.with_micro_batch(size) <= room), 1)
    if size and size < estimate.micro_batch:
        then = estimate.with_micro_batch(size)
        text = f"`--micro-batch-size {size}` instead of {estimate.micro_batch} (then about {format_bytes(then)})"
        yield estimate.total - estimate.with_micro_batch(1), text


def _other_remedies(estimate: MemoryEstimate, config: TrainConfig) -> Iterator[tuple[int, str]]:
    """Bytes saved at most and text for each change that this run has not made yet."""
    activations, learned = estimate.activations or 0, estimate.all_gradients + estimate.optimizer
    found = {
        "MALLOC_MMAP_THRESHOLD_=65536 in the environment, at a cost in time": estimate.allocator,
        f"`--max-length {estimate.longest // 2}`": (activations + estimate.allocator) // 2,
    }
    if not config.gradient_checkpointing:
        found["`--gradient-checkpointing`"] = activations
    if not config.lora_rank:
        found["`--lora-rank 8`"] = learned
    if config.precision != "bf16":
        changed = 0 if config.precision == "bf16-mixed" else activations + estimate.allocator
        found["`--precision bf16`"] = (estimate.weights + learned + changed) // 2
    if not config.lean:
        found["no `--full-logits`"] = estimate.logits_or_head
    for text, saved in found.items():
        yield saved, f"{text} (up to {format_bytes(saved, like=estimate.total)} less)"
