"""Loading causal language models: the embedded family, folders, GGUF files and the hub.

Whatever the source, `load_model` answers with a model in float32 in evaluation mode, its tokenizer and a card.
"""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from delcore._gguf import cached_conversion, convert_gguf
from delcore._hub import hub_reachable, what_is_beside
from delcore.adapters import load_adapter, read_record
from delcore.errors import InputError
from delcore.fingerprints import fingerprint_file
from delcore.pretrained import check_weight_files, from_pretrained, tokenizer_alone

EMBEDDED_DIR = Path(__file__).parent / "embedded"
EMBEDDED_NAMES = ("base", "mle", "mixce", "emo", "ntl_was", "ntl_mse", "dist2", "del")
"""The models that ship with the package: the base, and one fine-tuned with each loss."""


@dataclass(frozen=True)
class ModelCard:
    """What is known of a loaded model."""

    name: str
    """As the user asked for it; of a path, its last part."""

    source: str
    """"embedded", "folder", "gguf" or "hub"."""

    parameters: int
    """Number of weights, tied ones counted once."""

    context: int
    """Longest input, in tokens."""

    revision: str
    """What tells two versions of the weights apart: a hash, or the hub's commit."""

    details: Mapping[str, Any] = field(default_factory=dict)
    """How an embedded model was made and what was measured on it."""

    path: str = ""
    """Where it lies on this machine, if it is a folder or a .gguf file."""

    adapted: bool = False
    """Adapters were merged into it, so its weights as they are now lie in no single file."""


class LoadedModel(NamedTuple):
    """A model ready for inference."""

    model: Any
    tokenizer: Any
    card: ModelCard


def load_model(name_or_path: str | os.PathLike[str], *, trust_remote_code: bool = False) -> LoadedModel:
    """Load a causal language model and its tokenizer.

    Args:
        name_or_path: "embedded" or "embedded:LOSS"; "scratch" for its untrained shape; a folder with a saved model;
            a `.gguf` file, converted once into the user cache; or a hub id such as "Qwen/Qwen2.5-0.5B".
        trust_remote_code: run Python files that come with the model; off unless asked for.

    Raises:
        InputError: no such model, file or folder, a broken one, or a hub that cannot be reached.
    """
    name = os.fspath(name_or_path)
    if not name.strip():
        raise InputError("`--model` is empty. Name a folder, a .gguf file, a hub id or embedded:LOSS.")
    if _is_embedded(name):
        return load_embedded(name)
    path = _as_path(name)
    if path.suffix == ".gguf":
        return _load_gguf(path, name)
    if name.startswith("scratch:"):
        raise InputError(f"`--model` scratch takes no name; got {name!r}.")
    if path.is_dir():
        return _load_folder(path, name, "folder", trust_remote_code)
    if path.exists():
        raise InputError(f"`--model` {name!r} is a file, but no .gguf file. Name the folder of a saved model.")
    if _looks_like_path(name):
        raise InputError(f"`--model` {name!r}: there is no such folder.{what_is_beside(path)}")
    try:
        return _load_hub(name, trust_remote_code)
    except InputError as error:
        if not (beside := what_is_beside(path)):
            raise
        raise InputError(
            f"`--model` {name!r}: there is no such folder, and no such model to be had.{beside}"
        ) from error


def _as_path(name: str) -> Path:
    try:
        path = Path(name).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # too long, an unknown ~user, a NUL
        raise InputError(f"`--model` {name[:80]!r} is neither a path nor a hub id: {error}") from error
    return path


def is_hub_id(name: str) -> bool:
    """Whether a name can only be one of the hub: it is no path of this machine, and is not written like one.

    Raises:
        InputError: it is neither.
    """
    return not (_as_path(name).exists() or _looks_like_path(name))


def _looks_like_path(name: str) -> bool:
    return name.count("/") > 1 or name.startswith((".", "/", "~"))


def _is_embedded(name: str) -> bool:
    return name == "scratch" or name.partition(":")[0] == "embedded"


def load_tokenizer(name_or_path: str | os.PathLike[str]) -> Any:
    """The tokenizer of a model that `load_model` would load; of folders and hub ids without their weights.

    Raises:
        InputError: as `load_model`.
    """
    name = os.fspath(name_or_path)
    if _is_embedded(name):
        _member_of(name)
        return byte_tokenizer()
    if name.strip() and not name.endswith(".gguf") and is_hub_id(name):
        return tokenizer_alone(name, name, local_files_only=not hub_reachable())
    path = _as_path(name)
    if path.is_dir() and (path / "tokenizer_config.json").is_file():
        return tokenizer_alone(str(path), name)
    return load_model(name).tokenizer


# ---------------------------------------------------------------- the embedded family


def scratch_config() -> Any:
    """Shape of the embedded family: a Llama of 0.89 million parameters over bytes."""
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=259,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )


def byte_tokenizer() -> Any:
    """The embedded family's tokenizer: one token per byte, so each digit is a token and any text can be typed."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["<|pad|>", "<|begin|>", "<|end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate([*special, *alphabet])}, []))
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=special[0],
        bos_token=special[1],
        eos_token=special[2],
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
        split_special_tokens=True,  # "<|end|>" in a typed text is text
    )


def load_embedded(name: str, folder: Path = EMBEDDED_DIR) -> LoadedModel:
    """A member of the embedded family, "embedded[:LOSS]", or its untrained shape, "scratch"."""
    from transformers import LlamaForCausalLM

    member = _member_of(name)
    if not member:
        model = LlamaForCausalLM(scratch_config())
        return LoadedModel(model, byte_tokenizer(), _card(model, name, "embedded", revision="untrained"))
    from safetensors.torch import load_file

    model = LlamaForCausalLM(scratch_config())
    file = folder / f"{member}.safetensors"
    state = {key: value.float() for key, value in load_file(file).items()}
    model.load_state_dict({**state, "lm_head.weight": state["model.embed_tokens.weight"]})
    card_file = folder / "card.json"
    card = json.loads(card_file.read_text()) if card_file.is_file() else {"models": {}}
    return LoadedModel(
        model.eval(), byte_tokenizer(), _card(model, name, "embedded", _file_hash(file), card["models"].get(member))
    )


def _member_of(name: str) -> str:
    """The loss of "embedded:LOSS", "base" without one, "" of "scratch"; refuses what is no member."""
    kind, _, member = name.partition(":")
    member = "" if kind == "scratch" else member or "base"
    if member and member not in EMBEDDED_NAMES:
        raise InputError(f"`--model` embedded:NAME must name one of {', '.join(EMBEDDED_NAMES)}; got {member!r}.")
    return member


def save_embedded(model: Any, file: Path) -> None:
    """Write an embedded model's weights in half precision, the tied head left out."""
    from safetensors.torch import save_file

    state = {key: value.half().contiguous() for key, value in model.state_dict().items() if key != "lm_head.weight"}
    save_file(state, file, metadata={"format": "pt"})
    file.chmod(0o644)  # readable for everybody once installed


# ---------------------------------------------------------------- folders, GGUF, hub


def _load_folder(path: Path, name: str, source: str, trust_remote_code: bool) -> LoadedModel:
    path = path.resolve()  # adapters trained on it will name it, and may be loaded from elsewhere
    adapted = (path / "adapter_config.json").is_file()
    if not adapted and not (path / "config.json").is_file() and read_record(path) is None:
        raise InputError(f"`--model` folder {name!r} has no config.json, so it is no saved model.")
    if not any(path.glob("*.safetensors")) and not any(path.glob("*.bin")):
        raise InputError(
            f"`--model` folder {name!r} holds no model.safetensors: a run that has not finished, or a partial copy."
        )
    check_weight_files(path)
    if adapted:
        model, tokenizer = load_adapter(path, functools.partial(load_model, trust_remote_code=trust_remote_code))
    else:
        model, tokenizer = from_pretrained(str(path), name, trust_remote_code)
    card = _card(model, name, source, _folder_fingerprint(path), path=path, adapted=adapted)
    return LoadedModel(model, tokenizer, card)


def _load_gguf(path: Path, name: str) -> LoadedModel:
    if not path.is_file():
        raise InputError(f"`--model` file {name!r} does not exist.")
    content = _file_hash(path)  # the same on every machine, as the times of its converted files are not
    folder = cached_conversion(content)
    if not (folder / "config.json").is_file():
        convert_gguf(path, folder)
    loaded = _load_folder(folder, name, "gguf", trust_remote_code=False)
    return loaded._replace(card=dataclasses.replace(loaded.card, path=str(path.resolve()), revision=content))


def _load_hub(name: str, trust_remote_code: bool) -> LoadedModel:
    # Without a network the hub's client would retry for a minute before it looks into its own cache.
    model, tokenizer = from_pretrained(name, name, trust_remote_code, local_files_only=not hub_reachable())
    return LoadedModel(model, tokenizer, _card(model, name, "hub", getattr(model.config, "_commit_hash", None) or ""))


# ---------------------------------------------------------------- cards and caches


def _card(
    model: Any,
    name: str,
    source: str,
    revision: str,
    details: Mapping[str, Any] | None = None,
    *,
    path: Path | str = "",
    adapted: bool = False,
) -> ModelCard:
    context = getattr(model.config, "max_position_embeddings", None) or 2048
    shown = Path(name).stem if source == "gguf" else Path(name).name if source == "folder" else name
    return ModelCard(shown, source, model.num_parameters(), int(context), revision, details or {}, str(path), adapted)


def quiet_libraries() -> None:
    """Keep progress bars and advice of the model library out of a command's output and a server's log."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def _file_hash(path: Path) -> str:
    return fingerprint_file(path)[:16]


def _folder_fingerprint(path: Path) -> str:
    """Changes when a file of the folder is replaced: names, sizes and times, not the gigabytes themselves."""
    facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(path.iterdir())]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
