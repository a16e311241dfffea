"""The README's code runs as it stands, and its commands exist."""

import re
import shlex
from pathlib import Path

import pytest
import torch

from delcore import load_model, numeric_loss
from delcore.cli import build_parser

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
COMMANDS = [line for language, code in BLOCKS if language == "bash" for line in code.splitlines() if line]


TOP, LOOP, TRAINER, SFT = PYTHON
TRAINER_WARNINGS = ("ignore:.*pin_memory", "ignore:.*gradient_checkpointing", "ignore:.*use_reentrant")


@pytest.fixture
def run_alone(tmp_path, monkeypatch):
    """Runs a block as a program of its own, in an empty folder, and returns its names."""
    monkeypatch.chdir(tmp_path)

    def run(code: str) -> dict:
        names = {"__name__": "__main__"}
        exec(code, names)  # noqa: S102 - our own README
        return names

    return run


def fresh_model() -> torch.nn.Module:
    return load_model("embedded").model


def assert_moved(model: torch.nn.Module) -> None:
    for (name, trained), start in zip(model.named_parameters(), fresh_model().parameters(), strict=True):
        assert trained.isfinite().all(), name
        assert not torch.equal(trained, start), name


def test_readme_block_at_the_top_gives_a_finite_loss_and_a_gradient(run_alone):
    names = run_alone(TOP)
    loss = names["loss"]
    assert torch.isfinite(loss.total)
    assert loss.n_digits == 6
    assert all(weight.grad.isfinite().all() for weight in names["model"].parameters())


def test_readme_loop_trains_on_the_loss_of_the_batches_logits(run_alone):
    names = run_alone(LOOP)
    model, vocab = fresh_model().train(), names["vocab"]
    counts = {"step_tokens": names["step_tokens"], "step_digits": names["step_digits"]}
    assert counts == {"step_tokens": 12 + 17, "step_digits": 6 + 8}
    for ids in names["batches"]:
        expected = numeric_loss("del", model(input_ids=ids).logits[:, :-1], ids[:, 1:], vocab, **counts)
        expected.total.backward()
    for found, theirs in zip(names["loss"], expected, strict=True):
        torch.testing.assert_close(found, theirs, rtol=1e-5, atol=1e-6)
    for (name, mine), theirs in zip(names["model"].named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5, msg=lambda text, n=name: n + text)
    assert_moved(names["model"])


def logged_losses(trainer) -> list[float]:
    return [entry[key] for entry in trainer.state.log_history for key in ("loss", "train_loss") if key in entry]


@pytest.mark.usefixtures("no_type_checks")  # a tokenizer's batch is no dict, though a mapping
@pytest.mark.filterwarnings(*TRAINER_WARNINGS)
@pytest.mark.parametrize("block", [TRAINER, SFT], ids=["Trainer", "SFTTrainer"])
def test_readme_trainer_logs_a_finite_loss_and_moves_the_weights(block, run_alone, tmp_path):
    trainer = run_alone(block)["trainer"]
    assert trainer.state.global_step == 2  # eight rows, four a step
    losses = logged_losses(trainer)
    assert losses
    assert all(0 < loss < 20 for loss in losses)
    assert trainer.last_output.n_digits > 0
    assert_moved(trainer.model)
    assert all(path.name == "runs" for path in tmp_path.iterdir())  # and nothing elsewhere


def test_readme_holds_no_python_block_that_no_test_runs():
    assert len(PYTHON) == 4


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("delcore ")])
def test_readme_delcore_command_parses(command):
    build_parser().parse_args(shlex.split(command, comments=True)[1:])


def test_readme_names_the_three_lines():
    assert [line.split("#")[0].strip() for line in COMMANDS[:3]] == [
        "pip install -e . && delcore dashboard",
        'pip install -e ".[dev]" && pytest -n auto',
        "jupyter lab notebooks",
    ]


def test_readme_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)h#][^)]*)\)", README.read_text(encoding="utf-8"))
    assert [target for target in targets if not (README.parent / target.split("#")[0]).exists()] == []


@pytest.mark.usefixtures("no_type_checks")
@pytest.mark.filterwarnings(*TRAINER_WARNINGS)
def test_readme_trl_samples_end_in_the_end_token_and_spell_none(run_alone):
    names = run_alone(SFT)
    end, spelled = names["tokenizer"].eos_token_id, names["tokenizer"].eos_token.encode()
    for row in names["trainer"].train_dataset:
        assert row["input_ids"].count(end) == 1 and row["input_ids"][-1] == end
        assert spelled not in names["tokenizer"].decode(row["input_ids"][:-1]).encode()
