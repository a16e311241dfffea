"""Folders with LoRA adapters: their card is true, and a base that is not where it was is told in one line."""

import json
import shutil

import pytest

from delcore import InputError, TrainConfig, finetune, load_model
from delcore.adapters import ADAPTER_RECORD
from tests.models_for_tests import save_tiny


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    base = save_tiny(folder / "base", context=256)
    settings = {"steps": 2, "batch_size": 2, "max_length": 64, "device": "cpu", "lora_rank": 2}
    return base, finetune(TrainConfig(loss="ntl_was", model=str(base), out=folder / "run", **settings)).path


@pytest.fixture
def moved(trained, tmp_path):
    """The same two in places of their own, and nothing where the base was."""
    base, run = (shutil.copytree(one, tmp_path / one.name) for one in trained)
    gone = tmp_path / "gone"
    record = json.loads((run / ADAPTER_RECORD).read_text())
    (run / ADAPTER_RECORD).write_text(json.dumps({**record, "model_path": str(gone)}))
    return base, run, gone


def refusal(folder) -> str:
    with pytest.raises(InputError) as refused:
        load_model(folder)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_card_says_what_the_adapters_are_and_has_no_gaps(trained):
    base, run = trained
    card = (run / "README.md").read_text()
    assert "More Information Needed" not in card
    head, _, body = card.removeprefix("---\n").partition("---\n")
    assert "base_model" not in head and str(base.parent) not in card  # a path of this machine is no hub id
    facts = dict(line.strip().split(": ", 1) for line in body.splitlines() if line.startswith("    "))
    found = {name: json.loads(value) for name, value in facts.items()}
    assert found == {
        **{"base": base.name, "loss": "ntl_was", "data": "arithmetic"},
        **{"steps": 2, "lora_rank": 2, "seed": 0},
    }
    assert card.count("`") == 6


def test_base_that_has_moved_is_told_with_the_remedy_and_the_remedy_works(moved):
    base, run, gone = moved
    message = refusal(run)
    assert f"adapters of the model in {gone}, which is no longer there" in message
    assert f"`model_path` in {run / ADAPTER_RECORD}" in message
    record = json.loads((run / ADAPTER_RECORD).read_text())
    (run / ADAPTER_RECORD).write_text(json.dumps({**record, "model_path": str(base)}))
    assert load_model(run).card.adapted


def test_base_that_was_a_gguf_file_is_found_by_its_content(moved, tmp_path, monkeypatch):
    base, run, _ = moved
    monkeypatch.setenv("DELCORE_CACHE", str(tmp_path / "cache"))
    record = json.loads((run / ADAPTER_RECORD).read_text())
    (run / ADAPTER_RECORD).write_text(json.dumps({**record, "model_source": "gguf", "model_revision": "0123abcd"}))
    assert "never loaded on this machine" in refusal(run)
    shutil.copytree(base, tmp_path / "cache" / "gguf" / "0123abcd")
    assert load_model(run).card.adapted


def test_base_of_adapters_without_a_record_is_named_where_peft_has_it(moved):
    base, run, gone = moved
    (run / ADAPTER_RECORD).unlink()
    adapter = json.loads((run / "adapter_config.json").read_text())
    (run / "adapter_config.json").write_text(json.dumps({**adapter, "base_model_name_or_path": str(gone)}))
    assert f"`base_model_name_or_path` in {run / 'adapter_config.json'}" in refusal(run)
    (run / "adapter_config.json").write_text(json.dumps({**adapter, "base_model_name_or_path": str(base)}))
    assert load_model(run).card.adapted


@pytest.mark.parametrize("text", ["{", "[]", '{"model_source": "folder"}', '{"settings": []}'])
def test_record_that_was_changed_by_hand_is_one_line(moved, text):
    _, run, _ = moved
    (run / ADAPTER_RECORD).write_text(text)
    (run / "adapter_config.json").write_text("{}")
    message = refusal(run)
    assert "does not say which model its adapters belong to" in message
    assert str(run) in message
