"""GGUF files, converted once into folders that load fast; the cache that holds them."""

import os
import shutil
import tempfile
from pathlib import Path

from delcore.errors import InputError
from delcore.pretrained import from_pretrained


def cache_dir() -> Path:
    """Where converted models are kept: `DELCORE_CACHE`, or `~/.cache/delcore`."""
    return Path(os.environ.get("DELCORE_CACHE") or Path.home() / ".cache" / "delcore")


def cached_conversion(file_hash: str) -> Path:
    """The folder of a converted file, whether it is there or not."""
    return cache_dir() / "gguf" / file_hash


def convert_gguf(path: Path, folder: Path) -> None:
    """Dequantise once into half precision; the folder appears only when it is whole."""
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise InputError(f"{path} is no GGUF file (it does not begin with GGUF). Fetch it again.")
    try:
        import gguf  # noqa: F401
    except ImportError:
        raise InputError("Reading .gguf files needs a package more: pip install gguf") from None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".converting-"))
    except OSError as error:
        raise InputError(
            f"The cache {folder.parent} cannot be written: {error.strerror}. Set DELCORE_CACHE to another folder."
        ) from error
    try:
        model, tokenizer = from_pretrained(str(path.parent), str(path), False, gguf_file=path.name, dtype="float16")
        # The weights are dequantised by now, but the model would still be saved as a quantised one.
        model.is_quantized, model.hf_quantizer = False, None
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        if not folder.exists():
            scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
