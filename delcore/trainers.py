"""The losses inside other people's trainers: Hugging Face's `Trainer` and TRL's `SFTTrainer`.

`Trainer` counts the supervised tokens of an accumulation window, but not its digits, so a loss function handed to it
can only be right where the window is one batch. `numeric_trainer` counts both.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from delcore.data import align
from delcore.digits import IGNORE, DigitVocab
from delcore.errors import InputError
from delcore.losses import LossOutput, get_loss, numeric_loss


def numeric_trainer(Base: type, name: str, tokenizer: Any, *, alpha: float | None = None, **options: Any) -> type:  # noqa: N803
    """A subclass of `Trainer` or `SFTTrainer` that trains and evaluates under one loss.

        trainer = numeric_trainer(Trainer, "del", tokenizer)(model=model, args=args, train_dataset=data)

    Both counts are those of the whole accumulation window over all processes; in evaluation those of each batch, so
    that a set's loss is the mean of its batches', as Hugging Face has it. `trainer.last_output` holds the terms of the
    latest batch. EMO's embedding is a copy of the head as it is at the first step of this trainer, so a run that is
    resumed by a new trainer has another. TRL's own entropy and accuracy logs are not written.

    Args:
        Base: `transformers.Trainer`, `trl.SFTTrainer` or a subclass.
        name: key of `LOSSES`.
        tokenizer: the model's, with one token per digit.
        alpha: weight of the digit term; None for the loss's default.
        **options: of the loss.

    Raises:
        InputError: an unknown loss or option, a tokenizer without digits.
    """
    vocab = _checked_vocab(name, tokenizer, alpha, options)

    class NumericTrainer(Base):  # type: ignore[misc]
        """`Base` with the numeric loss in place of the model's own."""

        # The loss is divided by the counts of the window, so the trainer must not divide it again.
        loss_is_scaled_for_ga = True
        step_counts: tuple[Tensor, Tensor] | None = None
        embedding: Tensor | None = None
        last_output: LossOutput | None = None
        warned = False

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            """Refuse settings of another loss, which would be ignored."""
            super().__init__(*args, **kwargs)
            other = self.args.label_smoothing_factor or getattr(self, "compute_loss_func", None) is not None
            if other or getattr(self.args, "loss_type", "nll") == "dft":
                raise InputError(
                    f"This trainer's loss is `{name}`: leave out `label_smoothing_factor`, `compute_loss_func` and "
                    "`loss_type`."
                )

        def get_batch_samples(
            self, epoch_iterator: Any, num_batches: int, device: torch.device
        ) -> tuple[list[Any], Any]:
            """Fetch the window, and count its supervised tokens and digits over all processes."""
            batches, items = super().get_batch_samples(epoch_iterator, num_batches, device)
            self.step_counts = self.count_window(batches, device)
            self.warn_of_nothing(batches)
            return batches, items

        def warn_of_nothing(self, batches: list[Any]) -> None:
            """Say once that a whole window has nothing to learn, as when a length limit cut every response."""
            if self.warned or any(batch["labels"].is_cuda for batch in batches):  # a GPU is not made to wait for this
                return
            if batches and not any((batch["labels"][:, 1:] != IGNORE).any() for batch in batches):
                self.warned = True
                rows = sum(len(batch["labels"]) for batch in batches)
                warnings.warn(
                    f"None of the {rows} samples of an optimiser step has a supervised token, so nothing is learned "
                    "from it. Raise the length limit, or drop such samples.",
                    stacklevel=2,
                )

        def count_window(self, batches: list[Any], device: torch.device) -> tuple[Tensor, Tensor]:
            """Supervised tokens and digits of some batches, over all processes."""
            labels = [batch["labels"][:, 1:] for batch in batches]
            counts = torch.zeros(2, dtype=torch.long, device=device)
            for shifted in labels:
                counts += torch.stack([(shifted != IGNORE).sum(), vocab.is_digit(shifted).sum()]).to(device)
            if self.args.world_size > 1:
                counts = self.accelerator.reduce(counts, reduction="sum")
            return counts[0], counts[1]

        def compute_loss(
            self, model: Any, inputs: Mapping[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            """The loss of one micro-batch as its share of the window; of one batch in evaluation."""
            inputs = dict(inputs)
            labels = inputs.pop("labels")
            outputs = model(**inputs)
            tokens, digits = self.step_counts if model.training and self.step_counts else (None, None)
            if name == "emo" and self.embedding is None:
                head = self.accelerator.unwrap_model(model).get_output_embeddings()
                self.embedding = head.weight.detach().clone()  # as it is at this trainer's first step
            self.last_output = output = numeric_loss(
                name,
                *align(outputs.logits, labels),
                vocab,
                alpha=alpha,
                step_tokens=tokens,
                step_digits=digits,
                segments=segments_from_positions(inputs.get("position_ids")),
                embedding=self.embedding,
                **options,
            )
            # Data-parallel gradients are averaged over processes, while the counts are sums over them.
            total = output.total * self.args.world_size if tokens is not None else output.total
            return (total, outputs) if return_outputs else total

    NumericTrainer.__name__ = f"Numeric{Base.__name__}"
    return NumericTrainer


def _checked_vocab(name: str, tokenizer: Any, alpha: float | None, options: dict[str, Any]) -> DigitVocab:
    """The tokenizer's digits, once name, α and options are known to fit."""
    loss = get_loss(name)
    loss.resolve_alpha(alpha)
    vocab = DigitVocab.from_tokenizer(tokenizer)
    loss.check_values(options, has_dot=vocab.dot is not None)
    return vocab


def segments_from_positions(position_ids: Tensor | None) -> Tensor | None:
    """Which packed sample each *label* belongs to, aligned: a position 0 begins a new one; None without positions."""
    if position_ids is None or position_ids.ndim != 2:
        return None
    return (position_ids == 0).cumsum(-1)[:, 1:]


def trainer_loss(name: str, tokenizer: Any, *, alpha: float | None = None, **options: Any) -> Callable[..., Tensor]:
    """A `compute_loss_func` for `Trainer` where one batch is one optimiser step.

        Trainer(model=model, args=args, compute_loss_func=trainer_loss("del", tokenizer), …)

    `Trainer` tells a loss function how many tokens the accumulation window has, but not how many digits. Where the
    window is more than this batch, the function refuses and names `numeric_trainer`. It knows nothing of packed
    samples, whose numbers may join at a border.

    Args:
        name: key of `LOSSES` but `emo`, which needs the model's embedding.
        tokenizer: the model's, with one token per digit.
        alpha: weight of the digit term; None for the loss's default.
        **options: of the loss.

    Raises:
        InputError: as `numeric_trainer`; or, when called, a window of more than one batch.
    """
    if name == "emo":
        raise InputError(
            "`emo` needs the model's embedding, which a loss function is not given: use `numeric_trainer`."
        )
    vocab = _checked_vocab(name, tokenizer, alpha, options)

    def compute_loss(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            if torch.distributed.get_world_size() > 1:
                raise InputError("`trainer_loss` is for one process. For several use `delcore.numeric_trainer`.")
        logits, shifted = align(outputs.logits, labels)
        output = numeric_loss(name, logits, shifted, vocab, alpha=alpha, **options)
        if num_items_in_batch is not None and int(num_items_in_batch) != int(output.n_tokens):
            raise InputError(
                "`trainer_loss` is right only where one batch is one optimiser step, but this step has "
                f"{int(num_items_in_batch)} supervised tokens and this batch {int(output.n_tokens)}. "
                "For accumulation or several processes use `delcore.numeric_trainer`."
            )
        return output.total

    return compute_loss
