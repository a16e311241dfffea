"""The estimate of a run's memory against hand counts and measured runs, and what is said where memory will not do."""

import gc
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from delcore import DigitVocab, InputError, TrainConfig, finetune, load_model
from delcore.adapt import adapt
from delcore.bench import _reset_peak, _resident
from delcore.data import encode_sample
from delcore.loss_model import LossModel, decoder_of
from delcore.memory import (
    available_memory,
    check_memory,
    estimate_memory,
    explain_out_of_memory,
    format_estimate,
    is_out_of_memory,
)
from delcore.memory.estimate import HEAP_LIMIT, MemoryEstimate
from delcore.memory.fake_pass import Watch, run_fake_pass
from delcore.memory.limits import _free_of_groups, _free_of_machine
from delcore.models import LoadedModel
from delcore.orders import iterate_samples
from tests.families_for_tests import FAMILIES, load_family
from tests.models_for_tests import smollm2_file, tiny_loaded

DIGITS = DigitVocab(range(3, 13))
LONGEST = 40


def config(**changes) -> TrainConfig:
    return TrainConfig(**{"loss": "del", "out": Path("run"), "batch_size": 8, "device": "cpu", **changes})


def loss_model_of(loaded: LoadedModel, settings: TrainConfig) -> LossModel:
    model = adapt(loaded.model, settings)
    return LossModel(model, settings.loss, DigitVocab.from_tokenizer(loaded.tokenizer), lean=settings.lean)


def estimate(longest: int = LONGEST, *, ranks: int = 1, sharded: bool = False, **changes) -> MemoryEstimate:
    settings = config(**changes)
    loss_model = loss_model_of(tiny_loaded(), settings)
    return estimate_memory(loss_model, settings, longest=longest, ranks=ranks, sharded=sharded)


def tensor_bytes(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


# ---------------------------------------------------------------- what follows from the parameters


def test_estimate_of_weights_and_moments_counts_the_parameters():
    model = tiny_loaded().model
    weights = tensor_bytes([*model.parameters(), *model.buffers()])
    found = estimate()
    assert (found.weights, found.held) == (weights, weights)
    assert found.all_gradients == tensor_bytes(model.parameters())
    assert found.optimizer == 2 * found.all_gradients
    assert sum(found.parts.values()) == found.total


def test_estimate_with_adapters_learns_only_them():
    settings = config(lora_rank=2)
    loss_model = loss_model_of(tiny_loaded(), settings)
    adapters = [parameter for name, parameter in loss_model.named_parameters() if "lora_" in name]
    found = estimate_memory(loss_model, settings, longest=LONGEST)
    assert found.all_gradients == tensor_bytes(adapters)
    assert found.optimizer == 2 * found.all_gradients


def test_estimate_in_bfloat16_halves_weights_gradients_and_moments():
    whole, half = estimate(), estimate(precision="bf16")
    assert half.all_gradients * 2 == whole.all_gradients
    assert half.optimizer * 2 == whole.optimizer
    assert half.activations < whole.activations


def test_estimate_holds_gradients_between_micro_batches_only():
    assert estimate(batch_size=8).gradients == 0  # the fullest moment comes before the backward pass
    several = estimate(batch_size=8, micro_batch_size=4)
    assert several.gradients == several.all_gradients


def test_estimate_for_processes_copies_gradients_or_shards_everything():
    alone, copied, sharded = estimate(), estimate(ranks=2), estimate(ranks=2, sharded=True)
    assert copied.micro_batch == 4
    assert (copied.weights, copied.optimizer) == (alone.weights, alone.optimizer)
    assert copied.gradients == 2 * alone.all_gradients  # DDP's buffers
    assert sharded.optimizer == alone.optimizer // 2
    assert sharded.weights == alone.weights // 2


# ---------------------------------------------------------------- what only a pass tells


def test_watch_counts_storages_once_and_until_they_are_freed():
    watch = Watch(vocab_size=7)
    known = torch.ones(100)
    watch.ignore([known])
    with watch:
        one = known[:50] + 1  # 200 bytes; the view of `known` is not counted
        two = torch.cat([one, one, one.view(5, 10).flatten()])  # 600 more
        del one
        three = two[:49].reshape(7, 7) * 2  # 196 of the head
    assert watch.now == 600 + 196
    assert watch.fullest() == {"activations": 800}
    del two, three
    assert watch.now == 0


def test_fake_pass_keeps_what_autograd_saves_in_a_real_one():
    settings = config()
    loss_model = loss_model_of(tiny_loaded(), settings)
    known = {tensor.untyped_storage().data_ptr() for tensor in loss_model.parameters()}
    saved: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    ids = torch.arange(3, 3 + 8 * LONGEST).reshape(8, LONGEST) % 256
    mask = (torch.arange(LONGEST) < torch.arange(LONGEST - 7, LONGEST + 1).unsqueeze(1)).long()  # no two of a length
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        states = decoder_of(loss_model.model)(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    saved.pop(ids.data_ptr(), None)
    kept = sum(storage.nbytes() for address, storage in saved.items() if address not in known)
    assert states.requires_grad
    watch = run_fake_pass(loss_model, (8, LONGEST), vocab_size=259, mixed=False, accumulates=False)
    lean = 4 * (8 * (LONGEST - 1) * 16 + 259 * 16)  # gradients of states and head, which the lean loss keeps itself
    alive = watch.forward_bytes(HEAP_LIMIT)[1] - lean
    assert alive == pytest.approx(kept, rel=0.05)


def test_fake_pass_stops_early_without_missing_the_fullest_moment(monkeypatch):
    cases = [{}, {"gradient_checkpointing": True}, {"lora_rank": 2}, {"lean": False}, {"micro_batch_size": 2}]
    early = [estimate(**case) for case in cases]
    monkeypatch.setattr("delcore.memory.fake_pass.ENOUGH", 0)
    assert [estimate(**case).total for case in cases] == pytest.approx([found.total for found in early], rel=0.01)


def test_estimate_grows_with_samples_and_tokens():
    assert estimate(batch_size=16).activations == pytest.approx(2 * estimate(batch_size=8).activations, rel=0.1)
    assert estimate(longest=60).activations > 1.4 * estimate(longest=40).activations


def test_estimate_with_checkpointing_keeps_fewer_activations():
    settings = {"data": "arithmetic", "batch_size": 8}
    loaded = load_model("scratch")
    plain = estimate_memory(loss_model_of(loaded, config(**settings)), config(**settings), longest=LONGEST)
    settings["gradient_checkpointing"] = True
    fewer = estimate_memory(loss_model_of(loaded, config(**settings)), config(**settings), longest=LONGEST)
    assert fewer.activations < 0.5 * plain.activations


def test_estimate_of_full_logits_counts_them_and_their_gradient():
    one = 4 * 8 * LONGEST * 259
    assert estimate(lean=False).logits_or_head >= 2 * one * (LONGEST - 1) / LONGEST
    assert not estimate(lean=False).lean


def test_estimate_of_mixed_precision_keeps_fewer_activations():
    assert estimate(precision="bf16-mixed").activations < estimate().activations


def test_estimate_changes_neither_model_nor_chance_nor_what_follows():
    settings = config(lora_rank=2)
    loss_model = loss_model_of(tiny_loaded(), settings)
    before = {name: id(tensor) for name, tensor in loss_model.named_parameters()}
    ids, chance = torch.arange(3, 43).reshape(2, 20), torch.get_rng_state()
    expected = loss_model(ids, torch.ones_like(ids), ids).total
    estimate_memory(loss_model, settings, longest=LONGEST)
    assert {name: id(tensor) for name, tensor in loss_model.named_parameters()} == before
    assert all(parameter.grad is None for parameter in loss_model.parameters())
    assert torch.equal(torch.get_rng_state(), chance)
    assert torch.equal(loss_model(ids, torch.ones_like(ids), ids).total, expected)


@pytest.mark.parametrize("loss", ["mle", "mixce", "emo", "ntl_mse", "dist2", "del_released"])
@pytest.mark.parametrize("lean", [True, False])
def test_estimate_of_every_loss_knows_the_activations(loss, lean):
    assert estimate(loss=loss, lean=lean).activations > 0


@pytest.mark.parametrize("name", FAMILIES)
def test_estimate_of_every_family_knows_the_activations(name):
    settings = config(precision="bf16-mixed", lora_rank=2)
    found = estimate_memory(loss_model_of(load_family(name), settings), settings, longest=LONGEST)
    assert found.activations > 0


def test_estimate_of_a_model_that_needs_numbers_leaves_activations_unknown(monkeypatch):
    settings = config()
    loss_model = loss_model_of(tiny_loaded(), settings)
    layer = loss_model.model.model.layers[0]
    monkeypatch.setattr(type(layer.mlp), "forward", lambda self, states: states[states > 0])
    found = estimate_memory(loss_model, settings, longest=LONGEST)
    assert found.activations is None
    assert found.total >= found.weights + found.optimizer + found.all_gradients
    assert "activations unknown" in format_estimate(found)


@pytest.mark.slow
def test_estimate_of_seven_billion_weights_needs_neither_them_nor_their_time():
    from transformers import MistralConfig, MistralForCausalLM

    with torch.device("meta"):
        model = MistralForCausalLM(MistralConfig(num_hidden_layers=32)).train()
    loss_model = LossModel(model, "del", DIGITS, lean=False)
    cpu = torch.device("cpu")
    found = estimate_memory(loss_model, config(batch_size=1), longest=512, device=cpu)
    assert found.held == 0
    assert found.weights == pytest.approx(4 * 7.24e9, rel=0.01)
    assert found.total > 4 * found.weights


def test_estimate_counts_no_splinters_where_malloc_is_another(monkeypatch):
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    usual = estimate()
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    assert estimate().allocator == 0
    assert estimate().total == usual.total - usual.allocator


# ---------------------------------------------------------------- measured runs


def longest_of(settings: TrainConfig, loaded: LoadedModel, samples=None) -> int:
    source = itertools.islice(iterate_samples(samples, settings.seed), settings.steps * settings.batch_size)
    return max(len(encode_sample(loaded.tokenizer, sample).input_ids) for sample in source)


def write_texts(file: Path, length: int) -> str:
    """Texts of digits, each a token, and some of them shorter than others."""
    rows = [{"prompt": "9 ", "response": "8" * (length - 8 + i % 8)} for i in range(64)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def print_peak(settings: dict) -> None:
    """Peak resident bytes of a run and its model, without Python and the libraries, which a tiny run loads first."""
    out = Path(settings.pop("out"))
    same = {name: settings[name] for name in ("lora_rank", "precision") if name in settings}
    finetune(config(out=out / "tiny", steps=2, max_length=32, **same), loaded=tiny_loaded())
    gc.collect()
    before = _resident("VmRSS")
    loaded = load_model(settings["model"])
    _reset_peak()
    finetune(config(out=out / "run", **settings), loaded=loaded)
    sys.stdout.write(f"{_resident('VmHWM') - before}\n")


def measure_peak(settings: dict, out: Path) -> float:
    """`print_peak` in a fresh process."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("this system does not tell the peak of a process")
    code = f"from tests.test_memory import print_peak; print_peak({ {**settings, 'out': str(out)}!r})"
    root, environment = Path(__file__).parents[1], {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, env=environment)
    assert run.returncode == 0, run.stderr
    return float(run.stdout.split()[-1])


def assert_close_to_measured(settings: dict, out: Path, longest: int) -> None:
    loaded, whole = load_model(settings["model"]), config(**settings)
    found = estimate_memory(loss_model_of(loaded, whole), whole, longest=longest)
    # How threads of a busy machine fall together can only add to a peak, so the smaller of two counts.
    measured = min(measure_peak(settings, out / name) for name in ("first", "second"))
    said = f"measured {measured / 1e6:.0f} MB, estimated {found.total / 1e6:.0f} MB: {format_estimate(found)}"
    assert 0.8 <= found.total / measured <= 1.2, said


@pytest.mark.slow
def test_estimate_of_the_embedded_model_on_arithmetic_is_within_a_fifth(tmp_path):
    settings = {"model": "embedded", "batch_size": 32, "steps": 12}
    longest = longest_of(config(**settings), load_model("embedded"))
    assert_close_to_measured(settings, tmp_path, longest)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"micro_batch_size": 2}, {"lean": False}, {"gradient_checkpointing": True}])
def test_estimate_of_the_embedded_model_on_longer_texts_is_within_a_fifth(tmp_path, changes):
    data = write_texts(tmp_path / "texts.jsonl", 500)
    settings = {"model": "embedded", "batch_size": 8, "steps": 12, "data": data, **changes}
    assert_close_to_measured(settings, tmp_path, longest=502)


@pytest.mark.slow
@pytest.mark.network
def test_estimate_of_smollm2_with_adapters_is_within_a_fifth(tmp_path):
    data = write_texts(tmp_path / "texts.jsonl", 200)
    settings = {"model": str(smollm2_file()), "batch_size": 4, "steps": 4, "lora_rank": 4, "data": data}
    assert_close_to_measured(settings, tmp_path, longest=202)


# ---------------------------------------------------------------- what there is


def test_available_memory_of_this_machine_is_some_or_unknown():
    free = available_memory(torch.device("cpu"))
    assert free is None or 0 < free < 2**50
    assert available_memory(torch.device("meta")) is None


def test_available_memory_is_shared_by_the_processes_of_a_machine(monkeypatch):
    monkeypatch.setattr("delcore.memory.limits._free_of_machine", lambda file: [3000])
    monkeypatch.setattr("delcore.memory.limits._free_of_groups", lambda root, own: [2000, 5000])
    assert available_memory(torch.device("cpu")) == 2000
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert available_memory(torch.device("cpu")) == 500


def test_free_memory_of_a_machine_is_read_where_there_is_such_a_file(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   7 kB\n")
    assert list(_free_of_machine(tmp_path / "meminfo")) == [7 * 1024]
    assert list(_free_of_machine(tmp_path / "none")) == []


def write_group(folder: Path, **files) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"memory.{name}").write_text(f"{text}\n")


def test_free_memory_of_groups_heeds_every_limit_above(tmp_path):
    (tmp_path / "own").write_text("0::/outer/inner\n")
    write_group(tmp_path / "outer", max=1000, current=900, stat="anon 1\ninactive_file 300")
    write_group(tmp_path / "outer" / "inner", max="max", current=700)
    assert list(_free_of_groups(tmp_path, tmp_path / "own")) == [400]


def test_free_memory_of_groups_of_the_first_version_is_found_in_their_own_tree(tmp_path):
    (tmp_path / "own").write_text("5:cpu,cpuacct:/box\n4:memory:/box\n0::/\n")
    write_group(
        tmp_path / "memory", limit_in_bytes=800, usage_in_bytes=900, stat="inactive_file 5\ntotal_inactive_file 50"
    )
    assert list(_free_of_groups(tmp_path, tmp_path / "own")) == [0]


# ---------------------------------------------------------------- what is said


def example(**changes) -> MemoryEstimate:
    """3.4 GB, of which 0.5 are weights that are there already."""
    sizes = {"weights": 500, "gradients": 500, "optimizer": 1000, "activations": 800, "logits_or_head": 100}
    sizes |= {"allocator": 500, "held": 500, "all_gradients": 500, "update": 2100}
    settings = {name: size * 10**6 for name, size in sizes.items()}
    return MemoryEstimate(**{**settings, "micro_batch": 8, "longest": 512, "lean": True, **changes})


def test_estimate_is_shown_as_one_line_in_one_unit():
    assert format_estimate(example()) == (
        "Memory: about 3.4 GB at the fullest moment of a step: weights 0.5 GB, gradients 0.5 GB, optimizer 1.0 GB, "
        "activations 0.8 GB, logits or head 0.1 GB, allocator 0.5 GB (micro-batches of 8 × 512 tokens)."
    )
    small = example(weights=0, gradients=0, optimizer=0, activations=3 * 10**6, logits_or_head=0, allocator=0)
    assert "about 3 MB" in format_estimate(small)
    assert "weights" not in format_estimate(small)


def test_check_passes_where_memory_does_or_nobody_knows_or_cares():
    check_memory(example(), 2_900_000_000, config())
    check_memory(example(), None, config())
    check_memory(example(), 1, config(ignore_memory=True))


def test_check_refuses_with_the_arithmetic_and_what_helps_most_first():
    with pytest.raises(InputError) as caught:
        check_memory(example(), 2_400_000_000, config())
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("The run needs about 3.4 GB of memory, but 500 MB are held and 2.4 GB are free: weights")
    remedies = [
        "--precision bf16",
        "--lora-rank 8",
        "--micro-batch-size",
        "--gradient-checkpointing",
        "--max-length 256",
    ]
    places = [message.index(remedy) for remedy in [*remedies, "--ignore-memory"]]
    assert places == sorted(places)
    assert "`--micro-batch-size 4` instead of 8 (then about 2.8 GB)" in message
    assert "--full-logits" not in message


def test_check_names_nothing_that_the_run_does_already():
    done = config(gradient_checkpointing=True, lora_rank=4, precision="bf16", micro_batch_size=1)
    with pytest.raises(InputError) as caught:
        check_memory(example(micro_batch=1), 0, done)
    for remedy in ("--micro-batch-size", "--gradient-checkpointing", "--lora-rank", "--precision"):
        assert remedy not in str(caught.value)


def test_check_of_a_model_too_large_for_any_setting_says_so():
    done = config(gradient_checkpointing=True, lora_rank=4, precision="bf16")
    with pytest.raises(InputError, match="Pick a smaller model"):
        check_memory(example(micro_batch=1, activations=0, allocator=0), 0, done)


def test_check_suggests_a_micro_batch_that_fits():
    whole = estimate(batch_size=32)
    room = whole.held + (whole.total - whole.held) // 2
    size = next(size for size in range(31, 0, -1) if whole.with_micro_batch(size) <= room)
    with pytest.raises(InputError, match=f"`--micro-batch-size {size}` instead of 32"):
        check_memory(whole, room - whole.held, config(batch_size=32))
    assert estimate(batch_size=32, micro_batch_size=size).total <= 1.02 * room


CPU_ERROR = "[enforce fail at alloc_cpu.cpp:131] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RuntimeError(CPU_ERROR), True),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."), True),
        (MemoryError(), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_out_of_memory_is_told_from_other_errors(error, expected):
    assert is_out_of_memory(error) is expected


def test_out_of_memory_is_explained_with_the_estimate_and_half_the_micro_batch():
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore lines.")
    explained = explain_out_of_memory(error, example(), config())
    assert isinstance(explained, InputError)
    assert str(explained).startswith(
        "Memory ran out (CUDA out of memory. Tried to allocate 2.00 GiB.). The estimate was"
    )
    assert "`--micro-batch-size 4` instead of 8" in str(explained)
    assert "\n" not in str(explained)
    assert "MemoryError" in str(explain_out_of_memory(MemoryError(), example(), config()))
