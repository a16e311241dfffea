"""What tells data from other data of the same name: SHA-256 of files and of samples."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from delcore.arithmetic import Sample


def fingerprint_file(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint_samples(samples: Iterable[Sample]) -> str:
    """SHA-256 of all that samples hold, in their order."""
    return _fingerprint_lines(map(repr, samples))


def fingerprint_texts(samples: Iterable[Sample]) -> str:
    """SHA-256 of their prompts and responses alone, whatever kind they are of."""
    return _fingerprint_lines(f"{sample.prompt!r} {sample.response!r}" for sample in samples)


def _fingerprint_lines(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
