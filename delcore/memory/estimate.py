"""What a run will hold at its fullest moment."""

import os
import platform
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from delcore.config import TrainConfig
from delcore.loss_model import LossModel
from delcore.losses._scores import GPU_BLOCK_BYTES
from delcore.memory.fake_pass import run_fake_pass, size_of

HEAP_LIMIT = 32 * 2**20
"""glibc's malloc keeps freed pieces below this size for itself; larger ones go back to the system."""

HEAP_SLACK = (0.25, 0.45)
"""What that leaves in splinters: of all that a forward pass makes, and of what is still alive at its end.

Measured under glibc 2.36 as the peak of the resident memory over 3 to 12 steps, less that of the tensors: 16 runs of
the embedded model and SmolLM2-135M, with and without adapters, checkpointing and bfloat16. With these two shares each
estimate lies within 18 % of its run, most within 10 %; without them the lowest is less than half. The splinters grow
over the first steps, and there are none with MALLOC_MMAP_THRESHOLD_=65536 in the environment.
"""


@dataclass(frozen=True)
class MemoryEstimate:
    """What one process holds at the fullest moment of a step; sizes are bytes."""

    weights: int
    """Parameters and buffers, frozen ones too."""

    gradients: int
    """Those held at that moment: none before the first backward pass of a step, all between two micro-batches."""

    optimizer: int
    """AdamW's two moments."""

    activations: int | None
    """What a pass keeps and makes beside the other parts; None where a model's code cannot run without numbers."""

    logits_or_head: int
    """All that is as wide as the vocabulary: logits and their gradient, or the lean loss's chunk and the head's."""

    allocator: int
    """What malloc keeps of memory that is free again, see `HEAP_SLACK`; 0 on a GPU, where it is not estimated."""

    held: int
    """Of the weights, what lies on the device already."""

    all_gradients: int
    """Of all trained weights, as they are after a step's last backward pass."""

    update: int
    """While the optimiser moves the weights, all but the allocator's; no micro-batch size changes it."""

    micro_batch: int
    """Samples of a micro-batch."""

    longest: int
    """Tokens of its samples."""

    lean: bool
    """Whether the logits are never made in full."""

    @property
    def parts(self) -> dict[str, int]:
        """Bytes by what they are for."""
        names = ("weights", "gradients", "optimizer", "activations", "logits_or_head", "allocator")
        return {name.replace("_", " "): getattr(self, name) or 0 for name in names}

    @property
    def total(self) -> int:
        """Bytes at the fullest moment; without the activations where these are unknown."""
        return sum(self.parts.values())

    def with_micro_batch(self, samples: int) -> int:
        """Total with fewer samples in each of then several micro-batches."""
        share = samples / self.micro_batch
        head = self.logits_or_head * (1 if self.lean else share)
        passes = self.weights + self.all_gradients + self.optimizer + head + share * (self.activations or 0)
        return int(max(passes, self.update) + share * self.allocator)


def estimate_memory(
    loss_model: LossModel,
    config: TrainConfig,
    *,
    longest: int,
    ranks: int = 1,
    device: torch.device | None = None,
    sharded: bool = False,
) -> MemoryEstimate:
    """Estimate what each process of a run will need at most, in seconds and without allocating it.

    Args:
        loss_model: the model as it will be trained, wherever it lies now.
        config: the run.
        longest: tokens of the longest sample.
        ranks: how many processes there are.
        device: where it will be trained; None for where it lies.
        sharded: the processes share weights, gradients and moments (FSDP) instead of copying them (DDP). What FSDP
            gathers for a moment is not counted.
    """
    tensors = [*loss_model.parameters(), *loss_model.buffers()]
    trained = [tensor for tensor in tensors if tensor.requires_grad]
    device = device or tensors[0].device
    share = -(-config.batch_size // ranks)
    size = config.micro_batch(ranks), max(longest, 2)
    vocab_size = loss_model.model.get_input_embeddings().weight.shape[0]
    mixed, accumulates = config.precision == "bf16-mixed", ranks > 1 or size[0] < share
    watch = run_fake_pass(loss_model, size, vocab_size=vocab_size, mixed=mixed, accumulates=accumulates)
    found = watch.fullest() if watch else Counter[str]()
    if device.type == "cuda" and loss_model.why_full:  # whose blocks are larger than a CPU's
        found["head"] += min(GPU_BLOCK_BYTES, 4 * size[0] * size[1] * vocab_size)

    shards = ranks if sharded else 1
    copies = 2 if ranks > 1 and not sharded else 1  # DDP sends gradients in buffers of its own
    weights, gradients = _bytes(tensors) // shards, _bytes(trained) // shards
    found["gradients"] = found["gradients"] // shards * copies
    update = Counter(gradients=gradients * copies, activations=_update_bytes(trained, device) // shards)
    fullest = max(found, update, key=Counter.total)
    slack = (0, 0) if watch is None or device.type != "cpu" or not _splinters() else watch.forward_bytes(HEAP_LIMIT)
    return MemoryEstimate(
        weights=weights,
        gradients=fullest["gradients"],
        optimizer=2 * gradients,
        activations=fullest["activations"] if watch else None,
        logits_or_head=fullest["head"],
        allocator=int(sum(rate * size for rate, size in zip(HEAP_SLACK, slack, strict=True))),
        held=_bytes(tensor for tensor in tensors if tensor.device == device),
        all_gradients=gradients * copies,
        update=weights + 2 * gradients + update.total(),
        micro_batch=size[0],
        longest=size[1],
        lean=loss_model.why_full is None,
    )


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(map(size_of, tensors))


def _update_bytes(trained: list[Tensor], device: torch.device) -> int:
    """What AdamW makes for a moment: on a GPU for all weights at once, on a CPU twice for one after the other."""
    return _bytes(trained) if device.type == "cuda" else 2 * max(_bytes([tensor]) for tensor in trained)


def _splinters() -> bool:
    """Whether malloc is glibc's, as it is by default."""
    tuned = any(name in os.environ for name in ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD"))
    return platform.libc_ver()[0] == "glibc" and not tuned


def format_estimate(estimate: MemoryEstimate) -> str:
    """The estimate as one line for people; parts below a hundredth are left out."""
    return f"Memory: about {format_bytes(estimate.total)} at the fullest moment of a step: {format_parts(estimate)}."


def format_parts(estimate: MemoryEstimate) -> str:
    """The parts that matter, in one unit, and what a micro-batch is."""
    shown = {name: size for name, size in estimate.parts.items() if 100 * size >= estimate.total}
    parts = [f"{name} {format_bytes(size, like=estimate.total)}" for name, size in shown.items()]
    if estimate.activations is None:
        parts.append("activations unknown")
    return f"{', '.join(parts)} (micro-batches of {estimate.micro_batch} × {estimate.longest} tokens)"


def format_bytes(size: int, *, like: int | None = None) -> str:
    """A size in GB or MB (of a thousand each); `like` another number, so that the two can be compared."""
    return f"{size / 1e9:.1f} GB" if (like or size) >= 1e9 else f"{size / 1e6:.0f} MB"
