"""The training loop on tiny models: what a run leaves, what is refused, and what never moves the weights."""

import dataclasses
import gc
import hashlib
import importlib.metadata
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import delcore
from delcore import LOSSES, DigitVocab, InputError, TrainConfig, align, finetune, load_model, numeric_loss, train
from delcore import prepare as preparing
from delcore.adapters import read_record
from delcore.arithmetic import arithmetic_sample
from delcore.data import collate, encode_sample
from delcore.digits import IGNORE
from delcore.prepare import Job, prepare
from delcore.runs import PER_DIGIT
from tests import tokenizers_for_tests as tokenizers
from tests.models_for_tests import save_tiny, tiny_loaded

LOGGED = ("cross_entropy", "digit_term", "digit_mass", "digit_entropy_nats", "digit_accuracy", "tokens_per_second")


@pytest.fixture(autouse=True)
def quick_preparation(monkeypatch):
    """Looking at a thousand samples takes longer than a run here."""
    monkeypatch.setattr(preparing, "FIRST_SAMPLES", 20)


def config(out: Path, **changes) -> TrainConfig:
    settings = {"loss": "del", "steps": 2, "batch_size": 2, "max_length": 128, "device": "cpu"}
    return TrainConfig(**{**settings, **changes, "out": out})


def run_tiny(out: Path, *, tokenizer=None, progress=None, model_seed=0, **changes) -> train.Run:
    loaded = tiny_loaded(tokenizer, context=256, seed=model_seed)
    return finetune(config(out, **changes), loaded=loaded, progress=progress)


def job_of(out: Path, tokenizer=None, **changes) -> Job:
    return prepare(config(out, **changes), tiny_loaded(tokenizer, context=256))


def change_steps(monkeypatch, change) -> None:
    """Hand every step's samples to `change`, with the step's number, before they are trained on."""
    real = train.encode_step
    monkeypatch.setattr(train, "encode_step", lambda job, step: change(step, real(job, step)))


def mask_steps(monkeypatch, *steps: int) -> None:
    """Let some steps hold samples in which nothing is supervised."""

    def mask(step, encoded):
        return [one._replace(labels=[IGNORE] * len(one.labels)) for one in encoded] if step in steps else encoded

    change_steps(monkeypatch, mask)


def stop_at(monkeypatch, step: int, *signals: signal.Signals) -> None:
    """Send this process real signals, SIGINT if none is named, while it prepares a step."""

    def send(number, encoded):
        for one in (signals or (signal.SIGINT,)) if number == step else ():
            os.kill(os.getpid(), one)
        return encoded

    change_steps(monkeypatch, send)


def write_jsonl(file: Path, *rows) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def weights_of(run: Path, name: str = "model.safetensors") -> dict[str, torch.Tensor]:
    return load_file(run / name)


def final_weights(folder: Path) -> dict[str, torch.Tensor]:
    (file,) = folder.glob("*.safetensors")
    return weights_of(folder, file.name)


def assert_same_weights(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def record_of(run: Path) -> dict:
    return read_record(run)


# ---------------------------------------------------------------- what a run leaves


def test_run_folder_loads_with_transformers_and_delcore(tmp_path):
    run = run_tiny(tmp_path / "run")
    model = AutoModelForCausalLM.from_pretrained(run.path)
    tokenizer = AutoTokenizer.from_pretrained(run.path)
    ids = tokenizer("12 + 35 = ", return_tensors="pt")["input_ids"]
    assert torch.isfinite(model(ids).logits).all()
    assert load_model(run.path).card.parameters == model.num_parameters()


def test_run_folder_holds_safetensors_and_no_pickle(tmp_path):
    names = {file.name for file in run_tiny(tmp_path / "run").path.iterdir()}
    assert {"config.json", "metrics.jsonl", "model.safetensors", "tokenizer.json"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pth", ".pkl"))]


def test_metrics_have_a_line_per_step_with_every_measure(tmp_path):
    run = run_tiny(tmp_path / "run", steps=3)
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert lines == run.metrics
    assert [line["step"] for line in lines] == [1, 2, 3]
    for line in lines:
        assert set(LOGGED) <= set(line)
        assert line["loss"] == pytest.approx(line["cross_entropy"] + line["digit_term"], rel=1e-5)
        assert 0 <= line["digit_mass"] <= 1
        assert 0 <= line["digit_entropy_nats"] <= 2.3026
        assert 0 <= line["digit_accuracy"] <= 1
        assert line["tokens_per_second"] > 0


def test_metrics_lines_are_means_over_the_steps_between_them(tmp_path):
    every = run_tiny(tmp_path / "every", steps=5).metrics
    third = run_tiny(tmp_path / "third", steps=5, log_every=3).metrics
    assert [line["step"] for line in third] == [3, 5]
    for line, rows in zip(third, (every[:3], every[3:]), strict=True):
        for key in set(line) - {"step", "tokens_per_second"}:
            weights = [row["digits"] if key in PER_DIGIT else 1 for row in rows]
            mean = sum(row[key] * weight for row, weight in zip(rows, weights, strict=True)) / sum(weights)
            assert line[key] == pytest.approx(mean, rel=1e-6)


def test_digit_measures_are_absent_where_there_was_no_digit(tmp_path):
    data = write_jsonl(tmp_path / "data.jsonl", {"prompt": "a", "response": "b"})
    line = run_tiny(tmp_path / "run", data=str(data), steps=1).metrics[0]
    assert [line[key] for key in PER_DIGIT] == [None] * 3


def test_last_metrics_line_is_written_though_the_last_batch_teaches_nothing(tmp_path, monkeypatch):
    mask_steps(monkeypatch, 3)
    run = run_tiny(tmp_path / "run", steps=3, log_every=2)
    assert run.metrics[-1]["step"] >= 2
    run = run_tiny(tmp_path / "long", steps=3, log_every=10)
    assert len(run.metrics) == 1


def test_run_record_tells_versions_seed_data_and_alpha(tmp_path):
    data = write_jsonl(tmp_path / "data.jsonl", {"prompt": "1 + 1 = ", "response": "2"})
    run = run_tiny(tmp_path / "run", data=str(data), seed=7, options={"place": "none"})
    record = record_of(run.path)
    assert record["alpha"] == 0.1
    assert record["settings"]["seed"] == 7
    assert record["settings"]["loss"] == "del"
    assert record["settings"]["options"] == {"place": "none"}
    assert record["data_sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    assert record["steps_done"] == 2
    assert record["digit_coverage"] == 1
    for package in ("torch", "transformers"):
        assert record["versions"][package] == importlib.metadata.version(package)


def test_run_record_tells_the_version_of_delcore(tmp_path):
    assert record_of(run_tiny(tmp_path / "run").path)["versions"]["delcore"] == delcore.__version__


def test_run_record_has_a_fingerprint_of_generated_data_too(tmp_path, monkeypatch):
    record = record_of(run_tiny(tmp_path / "run").path)
    assert re.fullmatch("[0-9a-f]{64}", str(record["data_sha256"]))
    (tmp_path / "arithmetic").write_text("a file that happens to have this name")
    monkeypatch.chdir(tmp_path)
    assert record_of(run_tiny(tmp_path / "again").path)["data_sha256"] == record["data_sha256"]


def test_run_record_tells_alpha_as_the_release_counts_it(tmp_path):
    assert record_of(run_tiny(tmp_path / "run").path)["release_lambda"] == pytest.approx(1.0)


@pytest.mark.parametrize(("loss", "alpha", "expected"), [("mle", None, 0), ("dist2", None, 0.1), ("ntl_was", 0.7, 0.7)])
def test_run_record_tells_the_alpha_that_acted(tmp_path, loss, alpha, expected):
    assert record_of(run_tiny(tmp_path / "run", loss=loss, alpha=alpha).path)["alpha"] == expected


def test_out_may_be_an_empty_folder_nested_and_with_odd_letters(tmp_path):
    out = tmp_path / "ünï 数" / "run"
    out.mkdir(parents=True)
    assert weights_of(run_tiny(out).path)
    assert weights_of(run_tiny(tmp_path / "a" / "b" / "c").path)


def test_progress_ends_with_the_last_step(tmp_path):
    lines = []
    run_tiny(tmp_path / "run", progress=lines.append)
    assert lines[-1].startswith("step 2/2")
    assert "\n" not in lines[-1]


# ---------------------------------------------------------------- seeds and samples


def test_same_seed_gives_bit_identical_weights(tmp_path):
    one, two = (weights_of(run_tiny(tmp_path / name, seed=3).path) for name in ("one", "two"))
    assert_same_weights(one, two)


def test_same_seed_gives_bit_identical_weights_from_scratch(tmp_path):
    runs = [finetune(config(tmp_path / name, model="scratch", seed=3)).path for name in ("one", "two")]
    assert_same_weights(*(weights_of(run) for run in runs))


def test_another_seed_gives_other_weights(tmp_path):
    one, two = (weights_of(run_tiny(tmp_path / str(seed), seed=seed).path) for seed in (0, 1))
    assert any(not torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("data", ["arithmetic", "file"])
def test_every_loss_sees_the_same_samples(tmp_path, data):
    rows = [{"question": f"What is {n}?", "answer": str(n * n)} for n in range(7)]
    source = data if data == "arithmetic" else str(write_jsonl(tmp_path / "data.jsonl", *rows))
    seen = []
    for loss in LOSSES:
        job = prepare(config(tmp_path / loss, loss=loss, data=source), tiny_loaded())
        seen.append([train.encode_step(job, step) for step in range(1, 7)])
    assert all(steps == seen[0] for steps in seen[1:])
    assert seen[0][0] != seen[0][1]


@pytest.fixture(scope="module")
def mle_run(tmp_path_factory):
    return run_tiny(tmp_path_factory.mktemp("mle") / "run", loss="mle")


@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "mle"])
def test_every_loss_trains_and_differs_from_mle(tmp_path, mle_run, loss):
    run = run_tiny(tmp_path / "run", loss=loss)
    first, plain = run.metrics[0], mle_run.metrics[0]
    assert [(line["tokens"], line["digits"]) for line in run.metrics] == [
        (line["tokens"], line["digits"]) for line in mle_run.metrics
    ]
    assert first["digit_accuracy"] == plain["digit_accuracy"]
    assert first["digit_mass"] == pytest.approx(plain["digit_mass"])
    assert (first["digit_term"] == 0) == (LOSSES[loss].alpha is None)
    if LOSSES[loss].alpha is not None:
        assert first["cross_entropy"] == pytest.approx(plain["cross_entropy"], rel=1e-6)
    ours, theirs = weights_of(run.path), weights_of(mle_run.path)
    assert any(not torch.equal(ours[name], theirs[name]) for name in ours)


def test_loss_goes_down_on_a_few_samples(tmp_path):
    data = write_jsonl(
        tmp_path / "data.jsonl",
        {"prompt": "1 + 1 = ", "response": "2"},
        {"prompt": "9 - 2 = ", "response": "7"},
    )
    run = run_tiny(tmp_path / "run", data=str(data), steps=60, learning_rate=0.02)
    assert run.metrics[-1]["loss"] < run.metrics[0]["loss"] / 3
    assert run.metrics[-1]["digit_accuracy"] == 1


def test_learning_rate_rises_then_falls_to_nothing(tmp_path):
    rates = [line["learning_rate"] for line in run_tiny(tmp_path / "run", steps=10, warmup=0.3).metrics]
    assert rates[:3] == pytest.approx([1e-4, 2e-4, 3e-4])
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert rates[-1] < 3e-5


def test_end_token_is_learned_though_it_is_also_the_padding(tmp_path):
    """B15: the mask comes from lengths, so the true end token stays supervised."""
    tokenizer = tokenizers.grouping_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    rows = [{"prompt": "1+1=", "response": "2"}, {"prompt": "a", "response": "b longer text"}]
    data = write_jsonl(tmp_path / "data.jsonl", *rows)
    job = job_of(tmp_path / "run", tokenizer, data=str(data), allow_low_coverage=True)
    (batch,) = train.deal(job, train.encode_step(job, 1), SimpleNamespace(num_processes=1, process_index=0))
    end = tokenizer.eos_token_id
    assert job.pad == end
    assert len({int(mask.sum()) for mask in batch.attention_mask}) == 2
    for ids, mask, labels in zip(batch.input_ids, batch.attention_mask, batch.labels, strict=True):
        length = int(mask.sum())
        assert mask.tolist() == [1] * length + [0] * (len(mask) - length)
        assert ids[length - 1] == labels[length - 1] == end
        assert set(labels[length:].tolist()) <= {IGNORE}


# ---------------------------------------------------------------- what a run computes


def gradients_of(out: Path, monkeypatch, *, loaded=None, **changes) -> list[list[torch.Tensor]]:
    """The gradients of each step, as the optimiser meets them; it leaves the weights where they are."""
    steps: list[list[torch.Tensor]] = []

    def step(self, closure=None):
        steps.append([weight.grad.clone() for group in self.param_groups for weight in group["params"]])

    settings = {"batch_size": 8, "steps": 1, "clip": 0.0, **changes}
    with monkeypatch.context() as patched:
        patched.setattr(torch.optim.AdamW, "step", step)
        finetune(config(out, **settings), loaded=loaded or tiny_loaded(context=256))
    assert any(gradient.abs().max() > 1e-3 for gradient in steps[0])
    return steps


def assert_same_gradients(one, other, tolerance: float) -> None:
    assert len(one) == len(other)
    for ours, theirs in zip(one, other, strict=True):
        for mine, his in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, his, rtol=10 * tolerance, atol=tolerance)


@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "del_released"])
def test_gradients_do_not_depend_on_how_a_step_is_cut(tmp_path, monkeypatch, loss):
    """B14: eight samples as 1×8, 4+4, 3+3+2 and 8×1."""
    whole = gradients_of(tmp_path / "whole", monkeypatch, loss=loss)
    for size in (4, 3, 1) if loss == "del" else (3,):
        cut = gradients_of(tmp_path / str(size), monkeypatch, loss=loss, micro_batch_size=size)
        assert_same_gradients(cut, whole, 1e-6)


def test_gradients_of_the_released_loss_grow_with_the_micro_batches_as_the_releases_do(tmp_path, monkeypatch):
    whole, cut, plain = (
        gradients_of(tmp_path / str(size), monkeypatch, loss=loss, micro_batch_size=size)
        for size, loss in ((8, "del_released"), (1, "del_released"), (2, "mle"))
    )
    term, terms = (
        sum((mine - his).norm() for mine, his in zip(steps[0], plain[0], strict=True)) for steps in (whole, cut)
    )
    assert terms > 3 * term


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_those_of_the_full_logits(tmp_path, monkeypatch, loss):
    lean, full = (gradients_of(tmp_path / str(lean), monkeypatch, loss=loss, lean=lean) for lean in (True, False))
    assert_same_gradients(lean, full, 1e-6)


@pytest.mark.parametrize("lora_rank", [0, 2])
def test_gradient_checkpointing_gives_the_same_gradients(tmp_path, monkeypatch, lora_rank):
    """What was not kept is computed a second time, which a layer can tell."""
    found, passes = {}, {}
    for again in (False, True):
        loaded = tiny_loaded(context=256)
        hook = Mock(return_value=None)
        loaded.model.model.layers[0].self_attn.register_forward_hook(hook)
        settings = {"lora_rank": lora_rank, "gradient_checkpointing": again, "micro_batch_size": 4}
        found[again] = gradients_of(tmp_path / str(again), monkeypatch, loaded=loaded, **settings)
        passes[again] = hook.call_count
    assert passes[True] == passes[False] + 2
    assert_same_gradients(found[True], found[False], 1e-7)


def test_gradients_in_bfloat16_point_the_same_way(tmp_path, monkeypatch):
    exact, mixed, low = (
        torch.cat([part.flatten().float() for part in gradients_of(tmp_path / name, monkeypatch, precision=name)[0]])
        for name in ("float32", "bf16-mixed", "bf16")
    )
    assert 0.99 < torch.cosine_similarity(mixed, exact, dim=0) < 0.999999
    assert 0.99 < torch.cosine_similarity(low, exact, dim=0) < 0.999999


@pytest.mark.parametrize(
    ("precision", "dtype"), [("float32", torch.float32), ("bf16-mixed", torch.float32), ("bf16", torch.bfloat16)]
)
def test_weights_are_saved_in_the_precision_they_are_kept_in(tmp_path, precision, dtype):
    run = run_tiny(tmp_path / "run", precision=precision)
    assert {weight.dtype for weight in weights_of(run.path).values()} == {dtype}
    assert load_model(run.path).model.dtype == torch.float32


@pytest.mark.parametrize("limit", [0.5, 100.0])
def test_clipping_shortens_what_is_too_long_and_tells_the_length_before(tmp_path, monkeypatch, limit):
    (free,) = gradients_of(tmp_path / "free", monkeypatch)
    (clipped,) = gradients_of(tmp_path / "clipped", monkeypatch, clip=limit)
    length = torch.stack([part.norm() for part in free]).norm()
    line = json.loads((tmp_path / "clipped" / "metrics.jsonl").read_text())
    assert line["grad_norm"] == pytest.approx(length.item(), rel=1e-5)
    factor = min(limit / length.item(), 1)
    assert (factor < 1) == (limit == 0.5)
    for mine, his in zip(clipped, free, strict=True):
        torch.testing.assert_close(mine, his * factor, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("loss", ["del", "emo"])
def test_run_equals_a_loop_written_by_hand(tmp_path, loss):
    """Nothing of ours but the samples and `numeric_loss`; decay, clipping, warm-up and cosine as the paper's recipe."""
    settings = {"steps": 5, "batch_size": 4, "warmup": 0.4, "weight_decay": 0.1, "clip": 1.0, "learning_rate": 0.01}
    run = run_tiny(tmp_path / "run", loss=loss, micro_batch_size=3, **settings)
    model, tokenizer, _ = tiny_loaded(context=256)
    vocab = DigitVocab.from_tokenizer(tokenizer)
    embedding = model.get_output_embeddings().weight.detach().clone()
    adamw = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)
    losses = []
    for step in range(5):
        samples = [arithmetic_sample(4 * step + i, 0) for i in range(4)]
        batch = collate([encode_sample(tokenizer, sample) for sample in samples], 0)
        logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
        total = numeric_loss(loss, *align(logits, batch.labels), vocab, embedding=embedding).total
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        share = (step + 1) / 2 if step < 2 else 0.5 * (1 + math.cos(math.pi * (step - 2) / 3))
        adamw.param_groups[0]["lr"] = 0.01 * share
        adamw.step()
        adamw.zero_grad()
        losses.append(total.item())
    assert [line["loss"] for line in run.metrics] == pytest.approx(losses, rel=1e-4)
    trained = model.state_dict()
    for name, weight in weights_of(run.path).items():
        torch.testing.assert_close(weight, trained[name], rtol=0, atol=1e-4)  # AdamW enlarges the last bits
    moved = (trained["model.norm.weight"] - tiny_loaded(context=256).model.model.norm.weight).abs().max()
    assert moved > 1e-2


@pytest.mark.parametrize(("rows", "size", "epochs", "steps"), [(10, 4, 2.0, 5), (10, 4, 1.0, 3), (9, 4, 0.1, 1)])
def test_epochs_are_counted_in_whole_steps(tmp_path, rows, size, epochs, steps):
    data = write_jsonl(tmp_path / "data.jsonl", *({"prompt": f"{n} ", "response": "1"} for n in range(rows)))
    run = run_tiny(tmp_path / "run", data=str(data), batch_size=size, epochs=epochs, steps=99)
    assert run.steps_done == run.config.steps == len(run.metrics) == steps
    assert run.metrics[-1]["learning_rate"] < run.metrics[0]["learning_rate"] or steps == 1


def test_learning_rate_follows_the_cosine_after_the_warm_up(tmp_path):
    rates = [line["learning_rate"] for line in run_tiny(tmp_path / "run", steps=8, warmup=0.25).metrics]
    cosine = [0.5 * (1 + math.cos(math.pi * step / 6)) for step in range(6)]
    assert rates == pytest.approx([3e-4 * share for share in (0.5, 1.0, *cosine)])


# ---------------------------------------------------------------- held-out samples


def test_heldout_samples_of_a_file_are_never_trained_on(tmp_path, monkeypatch):
    rows = [{"prompt": f"{n} = ", "response": str(n)} for n in range(20)]
    data = str(write_jsonl(tmp_path / "data.jsonl", *rows))
    seen = set()
    change_steps(monkeypatch, lambda step, encoded: seen.update(tuple(one.input_ids) for one in encoded) or encoded)
    run = run_tiny(tmp_path / "run", data=data, epochs=3.0, eval_every=5, eval_samples=6)
    job = job_of(tmp_path / "again", data=data, eval_every=5, eval_samples=6)
    kept = {tuple(train.encode(job, sample).input_ids) for sample in job.heldout}
    assert (len(seen), len(kept)) == (14, 6)
    assert not seen & kept
    assert run.steps_done == 21
    assert [line["step"] for line in run.heldout] == [5, 10, 15, 20, 21]
    assert run.heldout == [json.loads(line) for line in (run.path / "heldout.jsonl").read_text().splitlines()]


def test_empty_name_of_heldout_data_does_not_mean_the_training_data(tmp_path):
    data = str(write_jsonl(tmp_path / "data.jsonl", *({"prompt": f"{n} ", "response": "1"} for n in range(9))))
    try:
        job = job_of(tmp_path / "run", data=data, eval_every=1, eval_data="", eval_samples=4)
    except InputError as error:
        assert "--eval-data" in str(error)
    else:
        assert not {sample.prompt for sample in job.heldout} & {sample.prompt for sample in job.samples}


@pytest.mark.parametrize(
    ("source", "loss"),
    [
        ("arithmetic", "del"),
        ("file", "del"),
        *(("other file", name) for name in LOSSES if name != "del_released"),
    ],
)
def test_heldout_line_is_the_loss_of_the_saved_weights(tmp_path, source, loss):
    """Measured again from the full logits of all held-out samples at once."""
    rows = [{"prompt": f"{n} * 3 = ", "response": f"{3 * n}"} for n in range(1, 60, 4)]
    data = "arithmetic" if source == "arithmetic" else str(write_jsonl(tmp_path / "data.jsonl", *rows))
    other = str(write_jsonl(tmp_path / "other.jsonl", *rows[:7])) if source == "other file" else None
    settings = {"loss": loss, "data": data, "eval_data": other, "eval_every": 2, "eval_samples": 6}
    run = run_tiny(tmp_path / "run", micro_batch_size=4, **settings)
    job = job_of(tmp_path / "again", **settings)
    batch = collate([train.encode(job, sample) for sample in job.heldout], job.pad)
    assert len(batch.input_ids) == 6
    start = tiny_loaded(context=256).model.get_output_embeddings().weight
    with torch.no_grad():
        logits = load_model(run.path).model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
        expected = numeric_loss(loss, *align(logits, batch.labels), job.vocab, embedding=start)
    (line,) = run.heldout
    assert (line["tokens"], line["digits"]) == (expected.n_tokens, expected.n_digits)
    assert line["loss"] == pytest.approx(expected.total.item(), rel=1e-5)
    assert line["cross_entropy"] == pytest.approx(expected.token_term.item(), rel=1e-5)
    for key in ("digit_term", *PER_DIGIT):
        assert line[key] == pytest.approx(getattr(expected, key).item(), rel=1e-5, abs=1e-7)


def test_heldout_loss_of_the_released_loss_does_not_grow_with_the_samples(tmp_path):
    terms = [
        run_tiny(
            tmp_path / str(size), loss="del_released", micro_batch_size=size, learning_rate=1e-9, eval_every=2
        ).heldout[0]["digit_term"]
        for size in (1, 2)
    ]
    assert terms[0] < 1.5 * terms[1]


def test_measuring_does_not_change_what_is_trained(tmp_path):
    often = run_tiny(tmp_path / "often", steps=4, eval_every=1, eval_samples=3)
    assert_same_weights(weights_of(often.path), weights_of(run_tiny(tmp_path / "never", steps=4).path))


def test_heldout_samples_without_anything_to_predict_have_no_loss(tmp_path):
    rows = [{"prompt": "p" * 50, "response": "1"}]
    other = str(write_jsonl(tmp_path / "other.jsonl", *rows))
    run = run_tiny(tmp_path / "run", max_length=40, eval_data=other, eval_every=2)
    assert run.heldout[0]["tokens"] == 0
    assert run.heldout[0]["loss"] is None


# ---------------------------------------------------------------- adapters


@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    """A base in a folder, and a LoRA run on it that moved far enough to be told apart."""
    folder = tmp_path_factory.mktemp("lora")
    base = save_tiny(folder / "base", context=256)
    run = finetune(config(folder / "run", model=str(base), lora_rank=2, steps=5, learning_rate=0.05))
    return base, run.path


IDS = torch.arange(3, 40).unsqueeze(0)


def logits_of(model) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=IDS).logits


def test_lora_run_saves_adapters_and_nothing_else_of_the_model(adapters):
    base, run = adapters
    assert not (run / "model.safetensors").exists()
    names = weights_of(run, "adapter_model.safetensors")
    assert len(names) == 14
    assert all("lora_A" in name or "lora_B" in name for name in names)
    assert record_of(run)["settings"]["lora_rank"] == 2


def test_lora_run_trains_its_adapters_only(tmp_path, monkeypatch, adapters):
    loaded = load_model(adapters[0])
    before = {name: value.clone() for name, value in loaded.model.state_dict().items()}
    (gradients,) = gradients_of(tmp_path / "run", monkeypatch, loaded=loaded, lora_rank=2)
    assert len(gradients) == 14
    finetune(config(tmp_path / "again", lora_rank=2, learning_rate=0.05), loaded=load_model(adapters[0]))
    after = {name.replace(".base_layer", ""): value for name, value in loaded.model.state_dict().items()}
    assert all(torch.equal(after[name], before[name]) for name in before)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_lora_run_loads_as_its_base_with_the_adapters_merged(adapters):
    from peft import AutoPeftModelForCausalLM

    base, run = adapters
    merged = load_model(run).model
    assert not [name for name, _ in merged.named_parameters() if "lora" in name]
    expected = logits_of(AutoPeftModelForCausalLM.from_pretrained(run))
    torch.testing.assert_close(logits_of(merged), expected, rtol=1e-5, atol=1e-5)
    assert (logits_of(load_model(base).model) - expected).abs().max() > 0.1


def test_lora_run_loads_with_transformers(adapters):
    _, run = adapters
    found = logits_of(AutoModelForCausalLM.from_pretrained(run))
    torch.testing.assert_close(found, logits_of(load_model(run).model), rtol=1e-5, atol=1e-5)


def test_adapters_on_adapters_are_merged(tmp_path, adapters):
    """No file holds the base with the first ones, so none could be named."""
    _, first = adapters
    second = finetune(config(tmp_path / "second", model=str(first), lora_rank=2, steps=1, learning_rate=1e-6)).path
    merged = logits_of(load_model(second).model)
    torch.testing.assert_close(merged, logits_of(load_model(first).model), rtol=1e-3, atol=1e-3)
    assert torch.equal(logits_of(AutoModelForCausalLM.from_pretrained(second)), merged)


def test_adapters_find_a_base_that_was_named_from_another_folder(tmp_path, monkeypatch):
    save_tiny(tmp_path / "base", context=256)
    monkeypatch.chdir(tmp_path)
    run = finetune(config(tmp_path / "run", model="base", lora_rank=2)).path
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load_model(run)


def test_adapters_of_an_embedded_base_are_merged(tmp_path):
    run = finetune(config(tmp_path / "run", model="embedded", lora_rank=2, learning_rate=0.01)).path
    assert not (run / "adapter_config.json").exists()
    assert not [name for name in weights_of(run) if "lora" in name]
    found = logits_of(AutoModelForCausalLM.from_pretrained(run))
    assert torch.equal(found, logits_of(load_model(run).model))
    assert (found - logits_of(load_model("embedded").model)).abs().max() > 1e-3


def test_data_without_a_response_within_the_length_limit_is_refused_before_the_run_folder(tmp_path):
    data = write_jsonl(tmp_path / "data.jsonl", *({"prompt": "p" * 50, "response": "1"} for _ in range(3)))
    with pytest.raises(InputError, match=r"within 40 tokens, so there is nothing to learn. Raise --max-length"):
        run_tiny(tmp_path / "run", data=str(data), max_length=40)
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------- logs and packages


def test_tensorboard_files_hold_every_term(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = run_tiny(tmp_path / "run", steps=3, tensorboard=True, eval_every=2, eval_samples=3)
    events = EventAccumulator(str(run.path / "tensorboard")).Reload()
    for group, lines in (("metrics", run.metrics), ("heldout", run.heldout)):
        for key in set(lines[0]) - {"step"}:
            shown = [(event.step, event.value) for event in events.Scalars(f"{group}/{key}")]
            assert shown == [(line["step"], pytest.approx(line[key], rel=1e-6)) for line in lines]


def refused_without(package: str, tmp_path, monkeypatch, **changes) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match="needs a package more: pip install") as refused:
        run_tiny(tmp_path / "run", **changes)
    assert f"`--{next(iter(changes)).replace('_', '-')}`" in str(refused.value)
    del refused
    gc.collect()  # so that files left open are told of here
    assert not (tmp_path / "run").exists()


def test_adapters_without_their_package_name_it_and_leave_nothing(tmp_path, monkeypatch):
    refused_without("peft", tmp_path, monkeypatch, lora_rank=2)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_tensorboard_without_its_package_names_it_and_leaves_nothing(tmp_path, monkeypatch):
    refused_without("torch.utils.tensorboard", tmp_path, monkeypatch, tensorboard=True)


# ---------------------------------------------------------------- batches that teach nothing


@pytest.mark.parametrize("loss", LOSSES)
def test_run_of_fully_masked_batches_leaves_the_weights_and_says_so(tmp_path, monkeypatch, loss):
    before = tiny_loaded(context=256).model.state_dict()
    lines = []
    mask_steps(monkeypatch, 1, 2)
    run = run_tiny(tmp_path / "run", loss=loss, weight_decay=0.1, progress=lines.append)
    after = weights_of(run.path)
    assert all(torch.equal(before[name], after[name]) for name in after)
    assert [line for line in lines if "4 " in line and "--max-length" in line]
    assert record_of(run.path)["samples_unsupervised"] == 4


def test_fully_masked_step_is_not_moved_by_momentum_or_decay(tmp_path, monkeypatch):
    same = {"steps": 2, "weight_decay": 0.1, "learning_rate": 0.01}
    with monkeypatch.context() as patched:
        stop_at(patched, 1)
        stopped = run_tiny(tmp_path / "stopped", **same)
    mask_steps(monkeypatch, 2)
    went_on = run_tiny(tmp_path / "went_on", **same)
    assert (stopped.steps_done, went_on.steps_done) == (1, 2)
    assert_same_weights(weights_of(stopped.path), weights_of(went_on.path))


def test_samples_cut_at_the_limit_are_counted(tmp_path):
    data = write_jsonl(tmp_path / "data.jsonl", {"prompt": "a" * 6, "response": "1" * 60})
    run = run_tiny(tmp_path / "run", data=str(data), max_length=20)
    record = record_of(run.path)
    assert (record["samples"], record["samples_cut"], record["samples_unsupervised"]) == (4, 4, 0)


def test_data_without_any_digit_trains_with_a_digit_term_of_zero(tmp_path):
    data = write_jsonl(tmp_path / "data.jsonl", {"prompt": "say ", "response": "hello"})
    run = run_tiny(tmp_path / "run", data=str(data))
    assert [line["digit_term"] for line in run.metrics] == [0, 0]
    assert all(torch.isfinite(value).all() for value in weights_of(run.path).values())


@pytest.mark.parametrize("row", [{"prompt": "", "response": ""}, {"prompt": "", "response": "1"}])
@pytest.mark.parametrize("make", [None, tokenizers.v12_tokenizer], ids=["bytes", "no-end-token"])
def test_empty_texts_do_not_break_a_run(tmp_path, row, make):
    data = write_jsonl(tmp_path / "data.jsonl", row, {"prompt": "1.", "response": "5"})
    run = run_tiny(tmp_path / "run", tokenizer=make and make(), data=str(data), batch_size=1, steps=4)
    assert all(torch.isfinite(value).all() for value in weights_of(run.path).values())


# ---------------------------------------------------------------- what is refused, with nothing left behind


def refusal(out: Path, **changes) -> str:
    """The message of a refused run: one line, and no folder."""
    lines = []
    with pytest.raises(InputError) as caught:
        run_tiny(out, progress=lines.append, **changes)
    assert not lines
    assert "\n" not in str(caught.value)
    assert not out.exists()
    return str(caught.value)


BAD_SETTINGS = [
    ({"loss": "no_such_loss"}, "no_such_loss"),
    ({"loss": "DEL"}, "DEL"),
    ({"options": {"nonsense": 1}}, "nonsense"),
    ({"options": {"place": "sideways"}}, "place"),
    ({"options": {"place": 5}}, "place"),
    ({"options": {"bce": "tanh"}}, "bce"),
    ({"options": {"distance": "l7"}}, "distance"),
    ({"options": {"criterion": "x"}}, "criterion"),
    ({"options": {"integer_factor": "x"}}, "integer_factor"),
    ({"loss": "dist2", "options": {"tau": -1}}, "tau"),
    ({"loss": "dist2", "options": {"tau": "x"}}, "tau"),
    ({"loss": "mixce", "options": {"eta": 7}}, "eta"),
    ({"loss": "emo", "options": {"cap": -1}}, "cap"),
    ({"loss": "emo", "options": {"cap": "x"}}, "cap"),
    ({"loss": "ntl_was", "options": {"form": "x"}}, "form"),
    ({"loss": "mle", "alpha": 0.1}, "alpha"),
    ({"alpha": -1.0}, "alpha"),
    ({"alpha": float("nan")}, "alpha"),
    ({"alpha": float("inf")}, "alpha"),
    ({"data": "/no/such/file.jsonl"}, "/no/such/file.jsonl"),
    ({"data": "n" * 300}, "--data"),
    ({"device": "toaster"}, "toaster"),
    ({"device": "cuda:99"}, "cuda:99"),
    ({"device": "meta"}, "meta"),
    ({"seed": 10**30}, "seed"),
]


@pytest.mark.usefixtures("no_type_checks")
@pytest.mark.parametrize(("changes", "word"), BAD_SETTINGS, ids=lambda value: str(value)[:40])
def test_bad_setting_is_refused_by_name(tmp_path, changes, word):
    assert word in refusal(tmp_path / "run", **changes)


@pytest.mark.parametrize("name", ["steps", "batch_size", "max_length", "log_every"])
@pytest.mark.parametrize("value", [0, -3])
def test_count_below_one_is_refused_as_typed(tmp_path, name, value):
    assert f"`--{name.replace('_', '-')}`" in refusal(tmp_path / "run", **{name: value})


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_learning_rate_out_of_range_is_refused(tmp_path, value):
    assert "`--learning-rate`" in refusal(tmp_path / "run", learning_rate=value)


@pytest.mark.parametrize("name", ["warmup", "clip", "weight_decay"])
@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_other_numbers_out_of_range_are_refused(tmp_path, name, value):
    assert f"--{name.replace('_', '-')}" in refusal(tmp_path / "run", **{name: value})


BAD_DATA = [
    (b"", "no samples"),
    (b" \n\n", "no samples"),
    (b'{"prompt": "1", "response": "2"}\n{"prompt": \n', "line 2"),
    (b'{"prompt": "1", "response": "2"}\n\n\nnot json\n', "line 4"),
    (b"[1, 2]\n", "line 1"),
    (b"3\n", "line 1"),
    (b'{"prompt": 1, "response": 2}\n', "line 1"),
    (b'{"prompt": "1"}\n', "line 1"),
    (b'{"text": "1"}\n', '"prompt" and "response"'),
    (bytes(range(256)), "UTF-8"),
    (b'{"prompt": "1", "response": "2", "n": ' + b"1" * 5000 + b"}\n", "line 1"),
    (b"[" * 100_000 + b"\n", "line 1"),
    (b'{"prompt": "\\ud83d 1", "response": "2"}\n', "line 1"),
]


@pytest.mark.parametrize(("content", "word"), BAD_DATA, ids=lambda value: str(value)[:30])
def test_bad_data_file_is_refused_by_file_and_line(tmp_path, content, word):
    file = tmp_path / "bad data.jsonl"
    file.write_bytes(content)
    message = refusal(tmp_path / "run", data=str(file))
    assert str(file) in message
    assert word in message


def test_folder_as_data_is_refused(tmp_path):
    assert str(tmp_path) in refusal(tmp_path / "run", data=str(tmp_path))


def test_data_with_a_byte_order_mark_or_windows_line_ends_is_read(tmp_path):
    file = tmp_path / "data.jsonl"
    file.write_bytes('\ufeff{"prompt": "1 ", "response": "2"}\r\n\r\n'.encode())
    assert run_tiny(tmp_path / "run", data=str(file)).metrics


@pytest.mark.parametrize("kind", ["file", "folder", "below-a-file", "device", "long", "dangling-link"])
def test_out_that_exists_or_cannot_be_written_is_refused_and_untouched(tmp_path, kind):
    target = tmp_path / "out"
    if kind == "file":
        target.write_text("mine")
    elif kind == "folder":
        target.mkdir()
        (target / "notes.txt").write_text("mine")
    elif kind == "below-a-file":
        (tmp_path / "file").write_text("mine")
        target = tmp_path / "file" / "a" / "b"
    elif kind == "device":
        target = Path("/proc/delcore/run")
    elif kind == "long":
        target = tmp_path / ("n" * 300)
    else:
        target.symlink_to(tmp_path / "nowhere")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(InputError, match="`--out`"):
        run_tiny(target)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_two_runs_into_one_folder_do_not_mix(tmp_path, monkeypatch):
    def start_another_in_between(step, encoded):
        if step == 2:
            with pytest.raises(InputError, match="not empty"):
                run_tiny(tmp_path / "run")
        return encoded

    change_steps(monkeypatch, start_another_in_between)
    run = run_tiny(tmp_path / "run")
    assert len((run.path / "metrics.jsonl").read_text().splitlines()) == 2
    assert record_of(run.path)["steps_done"] == 2


@pytest.mark.parametrize("make", [tokenizers.grouping_tokenizer, tokenizers.gpt2_style_tokenizer])
def test_low_coverage_is_refused_with_the_remedy(tmp_path, make):
    message = refusal(tmp_path / "run", tokenizer=make())
    assert "--allow-low-coverage" in message
    assert re.search(r"\d+ of \d+ digits", message)


def test_low_coverage_is_a_warning_with_the_flag(tmp_path):
    lines = []
    tokenizer = tokenizers.grouping_tokenizer()
    run = run_tiny(tmp_path / "run", tokenizer=tokenizer, allow_low_coverage=True, progress=lines.append)
    assert record_of(run.path)["digit_coverage"] < 0.99
    assert [line for line in lines if "tokens of their own" in line]


def test_tokenizer_without_all_digits_is_refused_with_the_missing_one(tmp_path):
    assert "digit 9" in refusal(tmp_path / "run", tokenizer=tokenizers.lookalike_tokenizer("012345678"))


def test_head_narrower_than_the_tokenizer_is_refused(tmp_path):
    loaded = tiny_loaded(tokenizers.v12_tokenizer())._replace(tokenizer=tiny_loaded().tokenizer)
    with pytest.raises(InputError):
        finetune(config(tmp_path / "run"), loaded=loaded)
    assert not (tmp_path / "run").exists()


def test_broken_model_folder_is_refused_before_the_run_folder_is_made(tmp_path):
    folder = save_tiny(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match="empty"):
        finetune(config(tmp_path / "run", model=str(folder)))
    assert not (tmp_path / "run").exists()


def test_samples_longer_than_the_models_context_never_break_a_run_halfway(tmp_path):
    """A model with learned positions stops with an index error beyond its context."""
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = GPT2Config(vocab_size=259, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2)
    tiny = tiny_loaded()
    loaded = tiny._replace(model=GPT2LMHeadModel(shape), card=dataclasses.replace(tiny.card, context=16))
    try:
        run = finetune(config(tmp_path / "run", max_length=1024), loaded=loaded)
    except InputError as error:
        assert "--max-length" in str(error)
        assert not (tmp_path / "run").exists()
    else:
        assert record_of(run.path)["samples_cut"] > 0


@pytest.mark.parametrize("log_every", [1, 10])
def test_loss_that_is_not_finite_stops_the_run_and_leaves_no_weights(tmp_path, log_every):
    loaded = tiny_loaded(context=256)
    with torch.no_grad():
        loaded.model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(InputError, match=r"NaN|not finite|infinite"):
        finetune(config(tmp_path / "run", steps=4, save_every=1, log_every=log_every), loaded=loaded)
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert not list((tmp_path / "run").rglob("*.pt"))


def test_gradient_that_is_not_finite_stops_the_run_and_leaves_no_weights(tmp_path):
    """The loss is one of weights that were good still."""
    loaded = tiny_loaded(context=256)
    loaded.model.model.norm.weight.register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(InputError, match="not finite"):
        finetune(config(tmp_path / "run", steps=1), loaded=loaded)
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.usefixtures("no_type_checks")
def test_config_is_frozen_and_takes_out_as_text():
    made = TrainConfig(loss="del", out="runs/x")
    assert made.out == Path("runs/x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.steps = 3


# ---------------------------------------------------------------- interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_run_after_the_step_at_hand_and_saves(tmp_path, monkeypatch, number):
    usual = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    stop_at(monkeypatch, 3, number)
    lines = []
    run = run_tiny(tmp_path / "run", steps=50, progress=lines.append)
    assert (run.stopped_by, run.steps_done, record_of(run.path)["steps_done"]) == (number, 3, 3)
    assert len((run.path / "metrics.jsonl").read_text().splitlines()) == len(run.metrics) == 3
    assert [line for line in lines if "Stopped after step 3; --resume" in line]
    assert [path.name for path in (run.path / "checkpoints").iterdir()] == ["step-00000003"]
    assert load_model(run.path)
    assert [signal.getsignal(one) for one in usual] == list(usual.values())


def test_second_signal_acts_at_once(tmp_path, monkeypatch):
    stop_at(monkeypatch, 2, signal.SIGTERM, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_tiny(tmp_path / "run", steps=50)
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_interrupt_while_a_run_is_prepared_acts_at_once_and_leaves_nothing(tmp_path):
    def interrupt(line):
        assert "tokens of their own" in line
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_tiny(tmp_path / "run", progress=interrupt)
    assert not (tmp_path / "run").exists()


def test_interrupt_keeps_the_steps_that_no_line_has_shown_yet(tmp_path, monkeypatch):
    stop_at(monkeypatch, 3)
    run = run_tiny(tmp_path / "run", steps=50, log_every=10)
    assert [line["step"] for line in run.metrics] == [3]


@pytest.mark.slow
def test_ctrl_c_during_delcore_train_leaves_a_whole_run(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "delcore", "train", "--loss", "del", "--model", "scratch", "--out", str(out)]
    process = subprocess.Popen(
        [*command, "--steps", "100000", "--batch-size", "2"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        metrics, deadline = out / "metrics.jsonl", time.monotonic() + 240
        while not (metrics.exists() and metrics.read_text().count("\n") >= 3):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
    finally:
        process.kill()
    assert "Traceback" not in stderr
    assert "Stopped after step" in stderr
    assert process.returncode == 130
    assert record_of(out)["steps_done"] == metrics.read_text().count("\n")
    assert load_model(out).card.parameters == load_model("embedded").card.parameters


# ---------------------------------------------------------------- real data


@pytest.fixture
def gsm8k_train():
    folder = os.environ.get("DELCORE_BENCHMARKS")
    if not folder:
        pytest.skip("DELCORE_BENCHMARKS is not set")
    return Path(folder) / "gsm8k_train.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_twenty_steps_on_gsm8k_train_under_every_loss(tmp_path, gsm8k_train, loss):
    run = finetune(config(tmp_path / "run", loss=loss, data=str(gsm8k_train), steps=20, batch_size=4, max_length=1024))
    assert [line["step"] for line in run.metrics] == list(range(1, 21))
    assert all(torch.isfinite(torch.tensor(line["loss"])) for line in run.metrics)
    assert all(line["digits"] > 0 for line in run.metrics)
    record = record_of(run.path)
    assert record["digit_coverage"] > 0.99
    assert record["data_sha256"] == hashlib.sha256(gsm8k_train.read_bytes()).hexdigest()
    start, end = (sum(line["cross_entropy"] for line in part) for part in (run.metrics[:5], run.metrics[-5:]))
    assert end < start
    assert load_model(run.path)
