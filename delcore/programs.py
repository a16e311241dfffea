"""Running programs that a language model wrote, in a sandbox; a program's answer is what it printed.

Each program gets a new Python in a new bubblewrap sandbox, which is thrown away with it. Where no sandbox works nothing
is run: `check_sandbox` tries one, and raises `InputError` with the remedy. The boundary, and what draws it:

- Files (mount namespace): Python, its standard library, the shared libraries it is linked with and `PACKAGES`, all
  read-only, and an empty scratch folder in memory. No home or working folder, no /etc, /usr, /proc or /sys, no device
  but /dev/null.
- Network, processes, shared memory, host name: namespaces of their own. The program is nobody, without capabilities or
  a way to regain any, without a terminal, and inherits no environment and no open file but its three streams.
- System calls (seccomp): asking for a network socket, a second process, another process's memory, a namespace, a key
  ring or kernel tracing ends the program; it cannot catch that. Threads are allowed. x86_64 and aarch64 only.
- Resources (rlimits, set before the program and not to be raised): address space, which with a single process bounds
  the program's memory; threads, open files, file size. Scratch folder and kept output have a size. Wall time is kept by
  the parent, and everything in the sandbox's process namespace dies with bubblewrap, and bubblewrap with the parent.

Not protected against: faults of the kernel, the processor or bubblewrap; use of all cores for the time limit; kernel
memory that no rlimit counts, such as that of a million empty files (tmpfs stops at one file for two pages of the
machine's memory; freed with the program). The clock, the kernel's version and the libraries can be read.

Sources: bwrap(1), seccomp(2), getrlimit(2), namespaces(7), core(5).
"""

import functools
import json
import os
import platform
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from delcore._sandbox import ASKED, launcher, no_sandbox, sandbox_command, seccomp_filter
from delcore.errors import InputError

Status = Literal["ok", "no_output", "error", "timeout", "asked_input", "refused"]

SOURCE_BYTES = 1_000_000
OUTPUT_BYTES = 65_536


@dataclass(frozen=True)
class ProgramResult:
    """How one program ended, and what it printed."""

    status: Status
    """`ok`: exit status 0, and it printed something. `no_output`: the same, but nothing or blanks only. `error`: an
    exception, another exit status or a signal. `timeout`: still running at the limit. `asked_input`: it read its input,
    and that ended it. `refused`: too long to be run, or ended for a system call outside the rules."""

    output: str
    """What it had printed by then, whatever the status; bytes that are no UTF-8 appear as U+FFFD."""

    cut: bool = False
    """It printed more than was kept."""

    detail: str = ""
    """Why it is not `ok`, in one line; of an exception, the last line of its traceback."""


def run_program(
    source: str, *, seconds: float = 10.0, memory_mb: int = 1024, output_bytes: int = OUTPUT_BYTES
) -> ProgramResult:
    """Run one Python program in a sandbox of its own.

    Args:
        source: the program's text.
        seconds: wall time, the few hundredths in which Python starts included.
        memory_mb: address space in MiB, Python's own included.
        output_bytes: how much of the output is kept; the rest is read and dropped.

    Raises:
        InputError: no sandbox works here, or nothing could run under these limits.
    """
    if not (0 < seconds < 1e6 and memory_mb >= 64 and output_bytes >= 1):
        raise InputError(
            "`seconds` must be positive, `memory_mb` at least 64 and `output_bytes` at least 1; "
            f"got {seconds}, {memory_mb} and {output_bytes}."
        )
    check_sandbox()
    text = source.encode("utf-8", "surrogatepass")  # what is no UTF-8 fails inside, as a faulty program does
    if len(text) > SOURCE_BYTES:
        return ProgramResult("refused", "", detail=f"{len(text):,} bytes of source; at most {SOURCE_BYTES:,} are run")
    return _run(text, seconds, memory_mb, output_bytes)


def run_programs(sources: Sequence[str], *, workers: int = 1, **limits: Any) -> Iterator[ProgramResult]:
    """Run programs, `workers` at a time; the results come in the order of `sources`. Limits as in `run_program`."""
    from concurrent.futures import ThreadPoolExecutor

    check_sandbox()
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(functools.partial(run_program, **limits), sources)


@functools.cache  # remembers a success; what raises is tried again
def check_sandbox() -> None:
    """Try the sandbox, once per process: a harmless program must run, and one that forks must be stopped.

    Raises:
        InputError: it does not work here; the message says why, and what to do.
    """
    for program, wanted in ((b"print(6 * 7)", "ok"), (b"import os\nos.fork()", "refused")):
        result = _run(program, 20.0, 1024, 100)
        if result.status != wanted:
            raise no_sandbox(f"a trial program ended with {result.status!r}, not {wanted!r} ({result.detail})")


# ---------------------------------------------------------------- one run


@dataclass
class _Capture:
    output: bytes = b""
    cut: bool = False
    errors: bytes = b""
    timed_out: bool = False


def _run(source: bytes, seconds: float, memory_mb: int, output_bytes: int) -> ProgramResult:
    sandbox, filtering = sandbox_command(), seccomp_filter(platform.machine())
    deadline = time.monotonic() + seconds
    with _memory_file(source) as program, _memory_file(filtering) as rules, _memory_file(b"") as report:
        command = [*sandbox, "--perms", "0444", "--ro-bind-data", str(program), "/program.py", "--remount-ro", "/"]
        command += ["--seccomp", str(rules), "--json-status-fd", str(report)]
        command += ["--", "/python/bin/python3", "-s", "-S", "-P", "-c", launcher(memory_mb)]
        capture = _capture(command, (program, rules, report), deadline, output_bytes)
        code = _exit_code(os.pread(report, 10_000, 0))
    if code is None and not capture.timed_out:  # bubblewrap did not get as far as the program: no verdict on it
        raise no_sandbox(_last_line(capture.errors) or "bubblewrap ended without a word")
    return _judge(code, capture, seconds)


@contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    with open(os.memfd_create("delcore"), "w+b", buffering=0) as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


def _capture(command: list[str], files: tuple[int, ...], deadline: float, output_bytes: int) -> _Capture:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=files, env={}, bufsize=0) as process:
        assert process.stdout and process.stderr
        try:
            return _read(process.stdout.fileno(), process.stderr.fileno(), deadline, output_bytes)
        finally:
            process.kill()  # gone already, unless the time is up or we are interrupted: then all inside dies with it


def _read(output: int, errors: int, deadline: float, output_bytes: int) -> _Capture:
    """Read both pipes to their ends or to the deadline; keep the beginning of the one and the end of the other."""
    capture = _Capture()
    with selectors.DefaultSelector() as selector:
        for pipe in (output, errors):
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                capture.timed_out = True
                break
            for key, _ in selector.select(left):
                chunk = os.read(key.fd, 65_536)
                if not chunk:
                    selector.unregister(key.fd)
                elif key.fd == errors:
                    capture.errors = (capture.errors + chunk)[-4096:]
                else:
                    room = output_bytes - len(capture.output)
                    capture.output += chunk[:room]
                    capture.cut |= len(chunk) > room
    return capture


def _exit_code(report: bytes) -> int | None:
    """The program's exit status, or 128 + signal, as bubblewrap reports it; None if it never started.

    The report is out of the program's reach, unlike anything that could be read off its own output.
    """
    entries = [json.loads(line) for line in report.splitlines()]
    return next((entry["exit-code"] for entry in entries if "exit-code" in entry), None)


def _judge(code: int | None, capture: _Capture, seconds: float) -> ProgramResult:
    output = capture.output.decode("utf-8", "replace")
    status: Status = "error"
    detail = _last_line(capture.errors) or f"exit status {code}"
    if capture.timed_out:
        status, detail = "timeout", f"still running after {seconds:g} s"
    elif code == ASKED:
        status, detail = "asked_input", "it reads input, and there is none"
    elif code == 128 + signal.SIGSYS:
        status, detail = "refused", "a system call outside the sandbox's rules: the network, another process, …"
    elif code == 0:
        status, detail = ("ok", "") if output.strip() else ("no_output", "it printed nothing")
    return ProgramResult(status, output, capture.cut, detail)


def _last_line(text: bytes) -> str:
    line = text.decode("utf-8", "replace").rstrip().rpartition("\n")[2].strip()
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line[:300])
