"""Loading models: the embedded family, folders, GGUF files, the hub, and everything that can be wrong with them."""

import json
import time
from pathlib import Path

import pytest
import torch
from huggingface_hub import errors as hub_errors
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, dynamic_module_utils

from delcore import InputError, digit_distributions, load_model, models
from delcore.models import EMBEDDED_NAMES, byte_tokenizer
from delcore.studies.smollm2 import SMOLLM2_LOSSES
from tests.models_for_tests import CONTEXT, copy_of, save_tiny, smollm2_file, tiny_model

ROOT = Path(__file__).resolve().parent.parent

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setattr(models, "hub_reachable", lambda: False)


def refusal(name_or_path, **options) -> str:
    """The message of a refused model: one line, and within seconds."""
    started = time.perf_counter()
    with pytest.raises(InputError) as caught:
        load_model(name_or_path, **options)
    assert time.perf_counter() - started < 20
    message = str(caught.value)
    assert "\n" not in message
    return message


# ---------------------------------------------------------------- the embedded family


@pytest.mark.parametrize("name", ["embedded", *(f"embedded:{member}" for member in EMBEDDED_NAMES)])
def test_embedded_model_loads_in_float32_for_inference(name):
    model, tokenizer, card = load_model(name)
    assert not model.training
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert (card.name, card.source, card.context) == (name, "embedded", model.config.max_position_embeddings)
    assert card.parameters == sum(parameter.numel() for parameter in model.parameters()) <= 900_000
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert len(tokenizer) <= model.config.vocab_size


def test_embedded_without_a_name_is_the_base():
    assert load_model("embedded").card.revision == load_model("embedded:base").card.revision


@pytest.mark.parametrize("name", ["embedded:gpt", "embedded:DEL", "embedded:del_released", "scratch:del"])
def test_unknown_embedded_name_is_refused_with_the_names(name):
    message = refusal(name)
    assert name.partition(":")[2] in message
    if name.startswith("embedded"):
        assert all(member in message for member in EMBEDDED_NAMES)


def test_scratch_is_the_embedded_shape_untrained():
    torch.manual_seed(0)
    first = load_model("scratch")
    assert first.card.parameters == load_model("embedded").card.parameters
    assert first.card.revision == "untrained"


# ---------------------------------------------------------------- the byte tokenizer

ODD_TEXTS = [
    "12 + 35 = ",
    "👨‍👩‍👧 has 3",
    'המחיר הוא 12 ש"ח',
    "٣ and 三 and ３ are no ASCII digits; 3 is",
    "tabs\tand\r\nline breaks\n\n",
    "".join(map(chr, range(1, 32))) + "\x7f\x80\x9f",
    "  leading and trailing  ",
    "\u200f\u202e\ufeff\U0010ffff",
    "<b>7</b> & </div><script>1</script>",
]


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_byte_tokenizer_round_trips_odd_text(text):
    tokenizer = byte_tokenizer()
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


@pytest.fixture(scope="module")
def bytes_():
    return byte_tokenizer()


@settings(deadline=None, max_examples=200)
@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_byte_tokenizer_round_trips_any_text(bytes_, text):
    ids = bytes_(text)["input_ids"]
    assert ids[0] == bytes_.bos_token_id
    assert len(ids) == 1 + len(text.encode())
    assert bytes_.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize("text", ["<|end|>", "a <|pad|> 1", "<|begin|>7"])
def test_byte_tokenizer_takes_typed_special_tokens_as_text(bytes_, text):
    ids = bytes_(text)["input_ids"]
    assert len(ids) == 1 + len(text)
    assert bytes_.decode(ids, skip_special_tokens=True) == text


@settings(deadline=None, max_examples=50)
@given(number=st.from_regex(r"[0-9]{1,20}(\.[0-9]{1,5})?", fullmatch=True))
def test_byte_tokenizer_writes_each_digit_as_one_token(bytes_, number):
    assert bytes_.convert_ids_to_tokens(bytes_(number)["input_ids"])[1:] == list(number)


def test_byte_tokenizer_saved_and_reloaded_is_the_same(bytes_, tmp_path):
    bytes_.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    for text in ODD_TEXTS:
        assert again(text)["input_ids"] == bytes_(text)["input_ids"]
        assert again.decode(again(text)["input_ids"], skip_special_tokens=True) == text
    assert (again.pad_token_id, again.bos_token_id, again.eos_token_id) == (0, 1, 2)


# ---------------------------------------------------------------- folders


def test_folder_with_a_saved_model_loads(tiny_folder):
    model, tokenizer, card = load_model(tiny_folder)
    assert (card.name, card.source, card.context) == ("tiny", "folder", CONTEXT)
    assert not model.training
    ids = torch.tensor([tokenizer("1 + 1 = ")["input_ids"]])
    torch.testing.assert_close(model(ids).logits, tiny_model()(ids).logits)


def test_folder_may_be_given_as_text_relative_and_with_odd_letters(tiny_folder, tmp_path, monkeypatch):
    copy_of(tiny_folder, tmp_path / "ünï 数 model")
    monkeypatch.chdir(tmp_path)
    assert load_model("ünï 数 model").card.name == "ünï 数 model"


def test_folder_revision_changes_with_its_weights(tiny_folder, tmp_path):
    copy = copy_of(tiny_folder, tmp_path / "copy")
    before = load_model(copy).card.revision
    tiny_model(seed=1).save_pretrained(copy)
    assert load_model(copy).card.revision != before


def test_folder_keeps_a_head_wider_than_the_tokenizer(tmp_path):
    folder = save_tiny(tmp_path / "wide")
    tiny_model(300).save_pretrained(folder)
    model, tokenizer, _ = load_model(folder)
    assert model.get_output_embeddings().weight.shape[0] == 300
    assert len(tokenizer) == 259


def test_sharded_folder_loads(tiny_folder, tmp_path):
    copy = copy_of(tiny_folder, tmp_path / "shards")
    (copy / WEIGHTS).unlink()
    tiny_model().save_pretrained(copy, max_shard_size="10KB")
    assert len(list(copy.glob("*.safetensors"))) > 1
    assert load_model(copy).card.parameters == tiny_model().num_parameters()


def test_folder_without_config_is_refused(tmp_path):
    assert "config.json" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["/no/such/folder", "./none", "../none/of/these", "~/no-such-model", "a/b/c"])
def test_missing_path_is_refused_and_named(name):
    message = refusal(name)
    assert name in message
    assert "there is no such folder" in message
    assert "hub" not in message


def test_name_of_a_run_that_is_not_there_is_told_as_a_missing_folder(tmp_path, monkeypatch, offline):
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/del-0", "runs/mle-0"):
        Path(folder).mkdir(parents=True)
    message = refusal("runs/dle-0")
    assert "'runs/dle-0': there is no such folder" in message
    assert "runs holds del-0, mle-0." in message
    assert "hf download" not in message
    assert "There is no folder other/model here, and the hub cannot be reached" in refusal("other/model")


def test_file_that_is_no_model_is_refused(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("hello")
    assert "notes.txt" in refusal(file)


@pytest.mark.parametrize("name", ["n" * 300, "a b", "?", ""])
def test_impossible_name_is_refused(name, offline):
    refusal(name)


def truncated(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda raw: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "LFS pointer"),
        (truncated, "truncated"),
        (lambda raw: raw[:-1], "truncated"),
        (lambda raw: raw[:5], "truncated"),
        (lambda raw: b"junk" * 300, "damaged"),
        (lambda raw: b"", "empty"),
    ],
    ids=["pointer", "half", "less-a-byte", "five-bytes", "junk", "empty"],
)
def test_broken_weight_file_is_named_with_cause_and_remedy(tiny_folder, tmp_path, change, cause):
    copy = copy_of(tiny_folder, tmp_path / "copy")
    (copy / WEIGHTS).write_bytes(change((tiny_folder / WEIGHTS).read_bytes()))
    message = refusal(copy)
    assert str(copy / WEIGHTS) in message
    assert cause in message
    assert "etch it again" in message


def test_broken_shard_is_named(tiny_folder, tmp_path):
    copy = copy_of(tiny_folder, tmp_path / "shards")
    (copy / WEIGHTS).unlink()
    tiny_model().save_pretrained(copy, max_shard_size="10KB")
    shard = sorted(copy.glob("*.safetensors"))[1]
    shard.write_bytes(truncated(shard.read_bytes()))
    assert shard.name in refusal(copy)
    shard.unlink()
    assert shard.name in refusal(copy)


def test_folder_without_weights_is_refused(tiny_folder, tmp_path):
    copy = copy_of(tiny_folder, tmp_path / "copy")
    (copy / WEIGHTS).unlink()
    assert WEIGHTS in refusal(copy)


def test_weight_file_that_lacks_a_tensor_gives_no_partial_model(tiny_folder, tmp_path):
    copy = copy_of(tiny_folder, tmp_path / "copy")
    state = load_file(copy / WEIGHTS)
    lost = next(name for name in state if "q_proj" in name)
    save_file({name: value for name, value in state.items() if name != lost}, copy / WEIGHTS, {"format": "pt"})
    assert lost in refusal(copy)


def test_weights_of_another_shape_than_the_config_are_refused(tiny_folder, tmp_path):
    refusal(copy_of(tiny_folder, tmp_path / "copy", hidden_size=8, head_dim=4))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", "version https://git-lfs.github.com/spec/v1\n"])
def test_broken_json_in_a_folder_is_refused_by_name(tiny_folder, tmp_path, name, text):
    copy = copy_of(tiny_folder, tmp_path / "copy")
    (copy / name).write_text(text)
    assert str(copy) in refusal(copy)


@pytest.mark.parametrize("config", [{"model_type": "no-such-kind"}, {"model_type": "t5"}, {"hidden_size": "many"}])
def test_config_of_no_causal_model_is_refused(tiny_folder, tmp_path, config):
    assert str(tmp_path / "copy") in refusal(copy_of(tiny_folder, tmp_path / "copy", **config))


def test_folder_without_tokenizer_is_refused(tiny_folder, tmp_path):
    copy = copy_of(tiny_folder, tmp_path / "copy")
    for file in copy.glob("tokenizer*"):
        file.unlink()
    assert str(copy) in refusal(copy)


class Malicious:
    """Runs code when it is unpickled without `weights_only`."""

    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        return (open, (str(self.victim), "w"))


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("content", ["pickle", "pointer", "junk", "empty"])
def test_pickled_weights_never_run_code(tiny_folder, tmp_path, content):
    copy = copy_of(tiny_folder, tmp_path / "copy")
    (copy / WEIGHTS).unlink()
    file, victim = copy / "pytorch_model.bin", tmp_path / "executed"
    if content == "pickle":
        torch.save({"model.norm.weight": Malicious(victim)}, file)
    else:
        file.write_bytes({"pointer": b"version https://git-lfs\n", "junk": b"junk" * 99, "empty": b""}[content])
    assert str(copy) in refusal(copy)
    assert not victim.exists()


# ---------------------------------------------------------------- code that comes with a model

REMOTE_CODE = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM
Path({victim!r}).touch()
class OwnConfig(LlamaConfig):
    model_type = "own"
class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
"""


@pytest.fixture
def remote_code_folder(tiny_folder, tmp_path, monkeypatch):
    """A model whose config points at its own Python file, which leaves a trace when it runs."""
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question was asked on standard input"))
    classes = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    folder = copy_of(tiny_folder, tmp_path / "remote", model_type="own", auto_map=classes)
    (folder / "own.py").write_text(REMOTE_CODE.format(victim=str(tmp_path / "executed")))
    return folder


def test_remote_code_is_refused_without_running_it(remote_code_folder, tmp_path):
    message = refusal(remote_code_folder)
    assert "--trust-remote-code" in message
    assert "Python code of its own" in message
    assert not (tmp_path / "executed").exists()


def test_remote_code_loads_with_the_flag(remote_code_folder, tmp_path):
    loaded = load_model(remote_code_folder, trust_remote_code=True)
    assert type(loaded.model).__name__ == "OwnModel"
    assert (tmp_path / "executed").exists()


# ---------------------------------------------------------------- the hub


def test_hub_model_offline_and_not_cached_names_the_remedy(offline):
    message = refusal("delcore-tests/no-such-model")
    assert "delcore-tests/no-such-model" in message
    assert "hf download delcore-tests/no-such-model" in message
    assert "embedded" in message


def test_hub_is_asked_for_nothing_when_offline_is_set(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("socket.create_connection", lambda *_, **__: pytest.fail("a connection was opened"))
    assert not models.hub_reachable()


def fail_with(error: Exception, monkeypatch) -> None:
    def from_pretrained(*_, **__):
        raise OSError("the hub's own long story") from error

    monkeypatch.setattr(models, "hub_reachable", lambda: True)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", from_pretrained)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", from_pretrained)


def hub_error(kind: str) -> Exception:
    import httpx

    response = httpx.Response(401, request=httpx.Request("GET", "https://huggingface.co/x"))
    if kind == "LocalEntryNotFoundError":
        return hub_errors.LocalEntryNotFoundError("not cached")
    return getattr(hub_errors, kind)(kind, response=response)


def test_missing_gated_and_unreachable_hub_models_are_told_apart(monkeypatch):
    messages = {}
    for kind in ("RepositoryNotFoundError", "GatedRepoError", "LocalEntryNotFoundError"):
        fail_with(hub_error(kind), monkeypatch)
        messages[kind] = refusal("some/model")
        assert "some/model" in messages[kind]
    assert "Check the spelling" in messages["RepositoryNotFoundError"]
    assert "hf auth login" in messages["GatedRepoError"]
    assert "hf download" in messages["LocalEntryNotFoundError"]


# ---------------------------------------------------------------- GGUF


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DELCORE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_gguf_that_does_not_exist_is_refused():
    assert "none.gguf" in refusal("none.gguf")


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"version https://git-lfs.github.com/spec/v1\n", b"GGUF", b"GGUF" + bytes(99), b"GGUF\3\0\0\0"],
    ids=["empty", "text", "pointer", "magic-only", "zeros", "version-only"],
)
def test_gguf_that_is_none_is_refused_and_leaves_no_cache(tmp_path, cache, content):
    file = tmp_path / "model.gguf"
    file.write_bytes(content)
    assert "model.gguf" in refusal(file)
    assert not [path for path in cache.rglob("*") if path.is_file() or path.name.startswith(".converting")]


def test_gguf_with_an_unusable_cache_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DELCORE_CACHE", str(tmp_path / "file"))
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + bytes(99))
    assert "DELCORE_CACHE" in refusal(tmp_path / "model.gguf")


SMOLLM2_DIGITS = (0.012, 0.208, 0.108, 0.120, 0.232, 0.124, 0.074, 0.060, 0.033, 0.029)
"""p̂ after "12 + 35 = ", in float32."""


@pytest.mark.network
def test_smollm2_gives_its_known_digits_and_is_converted_once(cache):
    file = smollm2_file()
    times = []
    for _ in range(2):
        started = time.process_time()
        loaded = load_model(file)
        times.append(time.process_time() - started)
        (position,) = digit_distributions(loaded.model, loaded.tokenizer, "12 + 35 = ")
        assert position.probabilities == pytest.approx(SMOLLM2_DIGITS, abs=0.01)
        assert position.digit_mass == pytest.approx(0.999, abs=0.001)
        assert (loaded.card.name, loaded.card.source) == (file.stem, "gguf")
        assert loaded.card.parameters == pytest.approx(134.5e6, rel=0.01)
        assert loaded.card.context == 8192
        assert loaded.model.dtype == torch.float32
        del loaded
    assert len(list((cache / "gguf").iterdir())) == 1
    assert times[1] < times[0] / 2


@pytest.mark.network
def test_smollm2_cut_in_half_is_refused_and_leaves_no_cache(tmp_path, cache):
    file = tmp_path / "half.gguf"
    file.write_bytes(truncated(smollm2_file().read_bytes()))
    assert "half.gguf" in refusal(file)
    assert not [path for path in cache.rglob("*") if path.is_file() or path.name.startswith(".converting")]


@pytest.mark.network
def test_smollm2_card_is_of_the_file_not_of_the_cache(cache, tmp_path):
    file = tmp_path / "renamed.gguf"
    file.symlink_to(smollm2_file())
    first, second = load_model(smollm2_file()).card, load_model(file).card
    assert (first.name, second.name) == (smollm2_file().stem, "renamed")
    assert first.revision == second.revision == next((cache / "gguf").iterdir()).name
    assert json.loads(next(cache.rglob("config.json")).read_text())["model_type"] == "llama"


@pytest.mark.network
def test_smollm2s_stored_adapters_find_their_base_by_its_content(cache):
    pytest.importorskip("peft", reason="peft comes with the extra train")
    adapters = ROOT / "notebooks" / "studies" / "smollm2"
    assert "never loaded on this machine" in refusal(adapters / "del")
    base = load_model(smollm2_file())
    before = digit_distributions(base.model, base.tokenizer, "12 + 35 = ")[-1].probabilities
    for loss in SMOLLM2_LOSSES:
        loaded = load_model(adapters / loss)
        after = digit_distributions(loaded.model, loaded.tokenizer, "12 + 35 = ")[-1].probabilities
        assert loaded.card.adapted and after != pytest.approx(before, abs=0.01)
