"""How much memory a run will need, found without needing it, and what to change where it is not there.

Weights, gradients and AdamW's moments follow from the parameters. For the rest, one micro-batch goes forward and
backward on fake tensors, which have shapes but no numbers, while every storage is counted as it comes and goes: so
precision, activation checkpointing, adapters and the lean loss tell by themselves what they keep.
"""

from delcore.memory.estimate import MemoryEstimate, estimate_memory, format_estimate
from delcore.memory.limits import available_memory, check_memory, explain_out_of_memory, is_out_of_memory

__all__ = [
    "MemoryEstimate",
    "available_memory",
    "check_memory",
    "estimate_memory",
    "explain_out_of_memory",
    "format_estimate",
    "is_out_of_memory",
]
