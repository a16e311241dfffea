"""The losses inside `transformers.Trainer` and `trl.SFTTrainer` train as a plain loop does.

Run as a module by two processes at once, it trains with one of them and saves the weights (see the last test).
"""

import copy
import os
import subprocess
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import Trainer, TrainingArguments

from delcore.arithmetic import arithmetic_sample
from delcore.data import align, collate, encode_sample
from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.losses import LOSSES, numeric_loss
from delcore.models import byte_tokenizer
from delcore.trainers import numeric_trainer, segments_from_positions, trainer_loss
from tests.models_for_tests import tiny_model

TOKENIZER = byte_tokenizer()
VOCAB = DigitVocab.from_tokenizer(TOKENIZER)
SAMPLES = [encode_sample(TOKENIZER, arithmetic_sample(i, 0, kind="addition")) for i in range(16)]
ROWS = [{"input_ids": sample.input_ids, "labels": sample.labels} for sample in SAMPLES]
STEP = 8  # samples of one optimiser step
RATE = 1e-2


def collate_rows(rows):
    batch = collate([SAMPLES[ROWS.index(row)] for row in rows], TOKENIZER.pad_token_id)
    return {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "labels": batch.labels}


def train_by_hand(name: str, **options) -> torch.nn.Module:
    """Two steps of plain gradient descent, each on one batch of eight."""
    model = tiny_model().train()
    embedding = model.get_output_embeddings().weight.detach().clone()
    for start in (0, STEP):
        batch = collate_rows(ROWS[start : start + STEP])
        labels = batch.pop("labels")
        logits, shifted = align(model(**batch).logits, labels)
        numeric_loss(name, logits, shifted, VOCAB, embedding=embedding, **options).total.backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight -= RATE * weight.grad
                weight.grad = None
    return model


def settings(folder, accumulation: int = 1, **changes) -> TrainingArguments:
    fixed = {
        "output_dir": str(folder),
        "per_device_train_batch_size": STEP // accumulation,
        "gradient_accumulation_steps": accumulation,
        "learning_rate": RATE,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "max_grad_norm": 0.0,
        "num_train_epochs": 1,
        "train_sampling_strategy": "sequential",
        "report_to": "none",
        "save_strategy": "no",
        "use_cpu": True,
        "disable_tqdm": True,
        "remove_unused_columns": False,
    }
    return TrainingArguments(**(fixed | changes))


def train_with(trainer_class, folder, accumulation: int, **options):
    trainer = trainer_class(
        model=tiny_model(),
        args=settings(folder, accumulation),
        train_dataset=ROWS,
        data_collator=collate_rows,
        **options,
    )
    trainer.train()
    return trainer


@contextmanager
def trl_warnings_ignored():
    """What TRL and its imports warn of on a CPU, none of it about the loss."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_window_without_a_supervised_token_is_warned_of_once_and_moves_nothing(tmp_path):
    def masked(rows):
        batch = collate_rows(rows)
        return {**batch, "labels": torch.full_like(batch["labels"], -100)}

    trainer = numeric_trainer(Trainer, "del", TOKENIZER)(
        model=tiny_model(), args=settings(tmp_path, 2), train_dataset=ROWS, data_collator=masked
    )
    with pytest.warns(UserWarning, match="None of the 8 samples of an optimiser step") as seen:
        trainer.train()
    assert len([warning for warning in seen if "None of the 8" in str(warning.message)]) == 1
    before = tiny_model().state_dict()
    assert all(torch.equal(before[name], weight) for name, weight in trainer.model.state_dict().items())


KEPT_FOR_SFT = (
    *("output_dir", "per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate", "lr_scheduler_type"),
    *("optim", "max_grad_norm", "use_cpu", "num_train_epochs", "train_sampling_strategy", "save_strategy"),
)


def sft_trainer(make_class, folder, accumulation: int = 1, **changes):
    """An `SFTTrainer` of the class that `make_class` makes of it, on the rows of this module."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    args = settings(folder, accumulation).to_dict()
    fixed = {key: args[key] for key in KEPT_FOR_SFT}
    fixed |= {"report_to": "none", "bf16": False, "gradient_checkpointing": False, "disable_tqdm": True}
    rows = Dataset.from_list(ROWS)
    return make_class(SFTTrainer)(
        model=copy.deepcopy(tiny_model()),
        args=SFTConfig(**(fixed | changes)),
        train_dataset=rows,
        eval_dataset=rows,
        data_collator=lambda rows: collate_rows([{k: row[k] for k in ("input_ids", "labels")} for row in rows]),
        processing_class=TOKENIZER,
    )


def mean_of_batches(name: str, size: int, **given) -> float:
    """The loss of the untrained model on all rows, as the mean over batches of some size."""
    model, losses = tiny_model(), []
    for start in range(0, len(ROWS), size):
        batch = collate_rows(ROWS[start : start + size])
        labels = batch.pop("labels")
        with torch.no_grad():
            losses.append(numeric_loss(name, *align(model(**batch).logits, labels), VOCAB, **given).total.item())
    return sum(losses) / len(losses)


def assert_same_weights(found, expected):
    for (name, mine), theirs in zip(found.named_parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "del_released"])
def test_numeric_trainer_trains_as_a_plain_loop(name, accumulation, tmp_path):
    trainer = train_with(numeric_trainer(Trainer, name, TOKENIZER), tmp_path, accumulation)
    assert_same_weights(trainer.model, train_by_hand(name))


def test_numeric_trainer_moves_the_weights_by_more_than_the_tolerance(tmp_path):
    trained, start = train_by_hand("del"), tiny_model()
    moved = max((a - b).abs().max().item() for a, b in zip(trained.parameters(), start.parameters(), strict=True))
    assert moved > 1e-3


def test_trainer_loss_trains_as_a_plain_loop_without_accumulation(tmp_path):
    trainer = train_with(Trainer, tmp_path, 1, compute_loss_func=trainer_loss("del", TOKENIZER))
    assert_same_weights(trainer.model, train_by_hand("del"))


def test_trainer_loss_under_accumulation_is_refused_and_names_the_remedy(tmp_path):
    with pytest.raises(InputError, match="numeric_trainer"):
        train_with(Trainer, tmp_path, 4, compute_loss_func=trainer_loss("del", TOKENIZER))


def test_trainer_loss_of_emo_is_refused():
    with pytest.raises(InputError, match="numeric_trainer"):
        trainer_loss("emo", TOKENIZER)


@pytest.mark.parametrize("build", [lambda *a, **o: numeric_trainer(Trainer, *a, **o), trainer_loss])
def test_trainers_of_an_unfit_option_are_refused_when_made(build):
    with pytest.raises(InputError, match="`ntl_was` does not take `tau`"):
        build("ntl_was", TOKENIZER, tau=2.0)


def test_segments_begin_where_positions_restart():
    positions = torch.tensor([[0, 1, 2, 0, 1, 0]])
    assert segments_from_positions(positions).tolist() == [[1, 1, 2, 2, 3]]
    assert segments_from_positions(None) is None


def test_trainer_loss_in_two_processes_is_refused_and_names_the_remedy(monkeypatch):
    compute_loss = trainer_loss("del", TOKENIZER)
    outputs, labels = SimpleNamespace(logits=torch.zeros(1, 6, 259)), torch.full((1, 6), VOCAB.ids[3])
    assert compute_loss(outputs, labels).isfinite()
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    for size in (1, 2):
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda *group, size=size: size)
        if size == 1:
            assert compute_loss(outputs, labels, num_items_in_batch=5).isfinite()
        else:
            with pytest.raises(InputError, match="one process.*numeric_trainer"):
                compute_loss(outputs, labels, num_items_in_batch=5)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [({"label_smoothing_factor": 0.1}, {}), ({}, {"compute_loss_func": lambda *args, **kwargs: None})],
)
def test_numeric_trainer_with_the_setting_of_another_loss_is_refused(arguments, options, tmp_path):
    with pytest.raises(InputError, match="loss is `del`: leave out `label_smoothing_factor`"):
        numeric_trainer(Trainer, "del", TOKENIZER)(
            model=tiny_model(), args=settings(tmp_path, **arguments), train_dataset=ROWS, **options
        )


@pytest.mark.parametrize("size", [16, 4])
@pytest.mark.parametrize("name", ["del", "emo"])
def test_numeric_trainer_evaluates_to_the_mean_of_the_batches(name, size, tmp_path):
    trainer = numeric_trainer(Trainer, name, TOKENIZER)(
        model=tiny_model(),
        args=settings(tmp_path, per_device_eval_batch_size=size),
        eval_dataset=ROWS,
        data_collator=collate_rows,
    )
    given = {"embedding": tiny_model().get_output_embeddings().weight} if name == "emo" else {}
    assert trainer.evaluate()["eval_loss"] == pytest.approx(mean_of_batches(name, size, **given), rel=1e-5)


@pytest.mark.parametrize(("name", "accumulation"), [("del", 1), ("del", 4), ("emo", 4)])
def test_numeric_trainer_on_trl_trains_as_a_plain_loop(name, accumulation, tmp_path):
    with trl_warnings_ignored():
        trainer = sft_trainer(lambda base: numeric_trainer(base, name, TOKENIZER), tmp_path, accumulation)
        trainer.train()
    assert_same_weights(trainer.model, train_by_hand(name))


def test_numeric_trainer_on_trl_evaluates_to_the_mean_of_the_batches(tmp_path):
    with trl_warnings_ignored():
        trainer = sft_trainer(
            lambda base: numeric_trainer(base, "del", TOKENIZER), tmp_path, per_device_eval_batch_size=4
        )
        found = trainer.evaluate()["eval_loss"]
    assert found == pytest.approx(mean_of_batches("del", 4), rel=1e-5)


def test_mixce_with_eta_zero_trains_as_trls_own_dft(tmp_path):
    """TRL's `loss_type="dft"` itself, over accumulation, against the plain loop."""
    with trl_warnings_ignored():
        trainer = sft_trainer(lambda base: base, tmp_path, 4, loss_type="dft", per_device_eval_batch_size=16)
        evaluated = trainer.evaluate()["eval_loss"]
        trainer.train()
    assert evaluated == pytest.approx(mean_of_batches("mixce", 16, eta=0.0), rel=1e-5)
    by_hand = train_by_hand("mixce", eta=0.0)
    assert_same_weights(trainer.model, by_hand)
    with pytest.raises(AssertionError):
        assert_same_weights(trainer.model, train_by_hand("mle"))


@pytest.mark.slow
@pytest.mark.parametrize(("base", "accumulation"), [("Trainer", 1), ("Trainer", 4), ("SFTTrainer", 2)])
def test_numeric_trainer_in_two_processes_trains_as_a_plain_loop(base, accumulation, tmp_path):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    run = subprocess.run(
        [*launch, "-m", "tests.test_trainers", base, str(tmp_path), str(accumulation)],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    model = tiny_model()
    model.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    assert_same_weights(model, train_by_hand("del"))


def train_in_this_process(base: str, folder: Path, accumulation: int) -> None:
    share = {"per_device_train_batch_size": STEP // 2 // accumulation}  # two processes share a step
    if base == "SFTTrainer":
        trainer = sft_trainer(lambda base: numeric_trainer(base, "del", TOKENIZER), folder, accumulation, **share)
    else:
        trainer = numeric_trainer(Trainer, "del", TOKENIZER)(
            model=tiny_model(),
            args=settings(folder, accumulation, **share),
            train_dataset=ROWS,
            data_collator=collate_rows,
        )
    trainer.train()
    assert trainer.args.world_size == 2
    assert trainer.args.gradient_accumulation_steps == accumulation
    if trainer.is_world_process_zero():
        torch.save(trainer.accelerator.unwrap_model(trainer.model).state_dict(), folder / "weights.pt")


if __name__ == "__main__":
    train_in_this_process(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    torch.distributed.destroy_process_group()  # threads of the group that still run at exit end in an abort
