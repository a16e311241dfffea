"""Hugging Face's `from_pretrained` with its pitfalls mended and its errors explained."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from delcore._hub import error_chain
from delcore.errors import InputError


def from_pretrained(
    where: str, name: str, trust_remote_code: bool, *, dtype: str = "float32", **options: Any
) -> tuple[Any, Any]:
    """A causal model in evaluation mode and its tokenizer, from a folder or the hub.

    Raises:
        InputError: whatever keeps them from being loaded, in one line that begins with `name`.
    """
    from transformers import AutoModelForCausalLM

    options["trust_remote_code"] = trust_remote_code
    try:
        tokenizer = _load_tokenizer(where, options)
        answer: Any = AutoModelForCausalLM.from_pretrained(where, dtype=dtype, output_loading_info=True, **options)
    except Exception as error:  # a broken file raises whatever its parser does: KeyError, struct.error, EOFError …
        raise InputError(explain_load_error(name, error)) from error
    model, report = answer
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise InputError(f"{name} lacks {len(missing)} of its weights, such as {missing[0]}. Fetch it again.")
    return model.eval(), tokenizer


def tokenizer_alone(where: str, name: str, **options: Any) -> Any:
    """The tokenizer from a folder or the hub, without its model.

    Raises:
        InputError: whatever keeps it from being loaded, in one line that begins with `name`.
    """
    try:
        return _load_tokenizer(where, {"trust_remote_code": False, **options})
    except Exception as error:  # as for a model
        raise InputError(explain_load_error(name, error)) from error


def _load_tokenizer(where: str, options: dict[str, Any]) -> Any:
    """The tokenizer as its model was trained with it, which transformers 5 changes in two cases."""
    from transformers import AutoTokenizer
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    tokenizer: Any = AutoTokenizer.from_pretrained(where, **options)
    if getattr(tokenizer, "fill_token", None):  # CodeLlama: "<FILL_ME>" would lie behind the last embedding row
        tokenizer = AutoTokenizer.from_pretrained(where, fill_token=None, **options)
    # DeepSeek-Math: the begin token is asked for in tokenizer_config.json only, which is not read any more.
    begins = get_tokenizer_config(where, **options).get("add_bos_token") and tokenizer.bos_token_id is not None
    if begins and tokenizer("0")["input_ids"][0] != tokenizer.bos_token_id:
        tokenizer.add_bos_token = True
    return tokenizer


def explain_load_error(name: str, error: Exception) -> str:
    """One line that says why a model could not be loaded, and what to do."""
    text = " ".join(str(error).split())
    causes = {type(cause).__name__ for cause in error_chain(error)}
    if "trust_remote_code" in text:
        return (
            f"{name} brings Python code of its own, which would run on this machine with your rights. "
            "Read it, then pass --trust-remote-code to allow it."
        )
    if "GatedRepoError" in causes or "gated repo" in text:
        return f"{name} is gated: ask for access on its page at the hub, then log in with `hf auth login`."
    if "RepositoryNotFoundError" in causes or "is not a valid model identifier" in text:
        return f"There is no model {name!r} on the hub, and no folder of that name here. Check the spelling."
    if "OfflineModeIsEnabled" in causes or "LocalEntryNotFoundError" in causes or "couldn't connect" in text.lower():
        return (
            f"There is no folder {name} here, and the hub cannot be reached. A model of the hub is fetched where there "
            f"is a network, with `hf download {name}`; or use a folder, a .gguf file or the embedded family."
        )
    return f"{name} cannot be loaded: {type(error).__name__}: {text[:300]}"


def check_weight_files(path: Path) -> None:
    """Name the usual ways in which a weight file is broken, which the loader reports as header errors."""
    from safetensors import SafetensorError, safe_open

    for file in sorted([*path.glob("*.safetensors"), *path.glob("*.bin")]):
        if not file.is_file():
            raise InputError(f"{file} is no file. Fetch it again.")
        with file.open("rb") as stream:
            head = stream.read(20)
        if head.startswith(b"version https://git"):
            raise InputError(f"{file} is a Git LFS pointer, not the weights. Run `git lfs pull`, or fetch it again.")
        if not head:
            raise InputError(f"{file} is empty. Fetch it again.")
        if file.suffix == ".bin":
            continue
        try:
            with safe_open(file, "pt"):
                pass
        except SafetensorError as error:
            raise InputError(f"{file} is truncated or damaged ({error}). Fetch it again.") from error


@contextmanager
def without_peft_warning() -> Iterator[None]:
    """Peft 0.21 still asks transformers by a name that is on its way out, which is nothing to a user."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".is_gradient_checkpointing. is deprecated", FutureWarning)
        yield
