"""Published numbers, for tables that mark them as such; never mixed with ours."""

from typing import NamedTuple

SOURCE = "README of PolyU-VCLab/DEL at 68c3d4d, and arXiv:2605.20369"
NOTE = (
    "Mean accuracy over the seven benchmarks, in percent, as published by the authors of DEL; not measured here. One "
    "run each, no intervals. Recipe: MathInstruct, 2 epochs, learning rate 5e-6 (CodeLlama 2e-5), length 1,500."
)


class Published(NamedTuple):
    """One published mean accuracy over the seven.

    Args:
        model: that was fine-tuned.
        loss: as `delcore.plots.TITLES` writes it.
        mean_accuracy: in percent.
    """

    model: str
    loss: str
    mean_accuracy: float


PUBLISHED = (
    Published("Qwen2.5-1.5B", "MLE", 52.8),
    Published("Qwen2.5-1.5B", "MixCE", 52.9),
    Published("Qwen2.5-1.5B", "EMO", 53.4),
    Published("Qwen2.5-1.5B", "NTL-WAS", 53.8),
    Published("Qwen2.5-1.5B", "DIST2Loss", 53.1),
    Published("Qwen2.5-1.5B", "DEL", 55.4),
    Published("Qwen2.5-7B", "MLE", 68.3),
    Published("Qwen2.5-7B", "DIST2Loss", 69.2),
    Published("Qwen2.5-7B", "DEL", 70.6),
    Published("CodeLlama-7B", "DEL", 49.0),
    Published("Mistral-7B", "DEL", 56.5),
    Published("DeepSeek-Math-7B-Instruct", "DEL", 66.1),
)
