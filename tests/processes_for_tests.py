"""`delcore` in processes of their own that start within a tenth of a second, because one that has loaded it forks them.

They are real processes: they can be killed, limited and joined into a group, and end with an exit code.
"""

import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import delcore

LAUNCH = Path(delcore.__file__).parent / "launch" / "several_gpus.yaml"

LOADED = (
    *("delcore.cli", "delcore.train", "delcore.losses", "delcore.probe", "accelerate", "peft"),
    *("transformers.models.llama.modeling_llama", "torch.distributed.checkpoint.state_dict"),
)


def _context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*LOADED])
    return context


def _run(argv: Sequence[str], errors: str, environment: Mapping[str, str], file_limit: int | None) -> None:
    sys.stderr.flush()
    descriptor = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if file_limit is not None:  # the closest to a full disk that needs no disk
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    from delcore.cli import main

    sys.exit(main(argv))


@contextmanager
def _plain_main() -> Iterator[None]:
    """A new process runs the file of `__main__` first, and the tests of a dashboard leave theirs there."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class Delcore:
    """One `delcore` command under way.

    Args:
        argv: of the command.
        errors: file that gets its output.
        environment: variables to set.
        file_limit: bytes that no file of it may exceed.
    """

    def __init__(self, *argv: object, errors: Path, file_limit: int | None = None, **environment: object) -> None:
        self.errors = errors
        texts = {name: str(value) for name, value in environment.items()}
        arguments = ([str(one) for one in argv], str(errors), texts, file_limit)
        self.process = _context().Process(target=_run, args=arguments, daemon=True)
        with _plain_main():
            self.process.start()

    def wait_until(self, happened: Callable[[], object], seconds: float = 60) -> None:
        """Look again and again, as fast as it goes; fails if the command ends before."""
        deadline = time.monotonic() + seconds
        while not happened():
            assert self.process.is_alive() or happened(), f"it has ended before: {self.said()}"
            assert time.monotonic() < deadline, f"it did not happen within {seconds} s: {self.said()}"
            time.sleep(0.0005)

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self, seconds: float = 60) -> int:
        """Its exit code, −n after signal n; it is killed if it takes longer."""
        self.process.join(seconds)
        late = self.process.is_alive()
        if late:
            self.process.kill()
            self.process.join()
        assert not late, f"it took more than {seconds} s: {self.said()}"
        return self.process.exitcode

    def said(self) -> str:
        return self.errors.read_text(encoding="utf-8") if self.errors.exists() else ""


def run_delcore(*argv: object, errors: Path, **options: Any) -> tuple[int, str]:
    """Exit code and output of one command."""
    command = Delcore(*argv, errors=errors, **options)
    code = command.end()
    return code, command.said()


def group_variables(ranks: int) -> list[dict[str, object]]:
    """What `accelerate launch` tells each process of a group through its environment."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    shared = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [{**shared, "RANK": rank, "LOCAL_RANK": rank} for rank in range(ranks)]


def start_group(*argv: object, errors: Path, ranks: int = 2) -> list[Delcore]:
    """The same command in several processes."""
    return [
        Delcore(*argv, errors=errors.with_suffix(f".{variables['RANK']}"), **variables)
        for variables in group_variables(ranks)
    ]


def start_python(*argv: object, stderr: int = subprocess.PIPE, **environment: object) -> subprocess.Popen:
    """A Python of its own in a session of its own, as a shell starts one, with some variables set."""
    return subprocess.Popen(
        [sys.executable, *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in environment.items()}},
        start_new_session=True,
    )


def end_python(process: subprocess.Popen) -> tuple[str, str | None]:
    """What it said on both streams; it and all that it started are killed if they take longer than four minutes."""
    try:
        return process.communicate(timeout=240)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def run_group(*argv: object, errors: Path, ranks: int = 2) -> tuple[list[int], str]:
    """Exit codes of all, and what all of them said."""
    group = start_group(*argv, errors=errors, ranks=ranks)
    try:
        codes = [one.end() for one in group]
    finally:
        for one in group:
            one.process.kill()
    return codes, "".join(one.said() for one in group)
