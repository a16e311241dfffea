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
import re
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from delcore.errors import InputError

Status = Literal["ok", "no_output", "error", "timeout", "asked_input", "refused"]

PACKAGES = ("sympy", "mpmath")
"""What a program can import besides the standard library, where it is installed here."""

SOURCE_BYTES = 1_000_000
OUTPUT_BYTES = 65_536
SCRATCH_BYTES = 16 * 2**20
_NOBODY = 65534
_ASKED = 90  # exit status of a program that read its input; one that fakes it gains nothing


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
            raise _no_sandbox(f"a trial program ended with {result.status!r}, not {wanted!r} ({result.detail})")


def _no_sandbox(reason: str) -> InputError:
    return InputError(
        f"Programs are only run in a sandbox, and it does not work here: {reason}. On Linux install bubblewrap 0.8 or "
        "newer (apt-get install bubblewrap), and allow user namespaces or be root; or score without running programs."
    )


# ---------------------------------------------------------------- one run


@dataclass
class _Capture:
    output: bytes = b""
    cut: bool = False
    errors: bytes = b""
    timed_out: bool = False


def _run(source: bytes, seconds: float, memory_mb: int, output_bytes: int) -> ProgramResult:
    sandbox, filtering = _sandbox(), _filter(platform.machine())
    deadline = time.monotonic() + seconds
    with _memory_file(source) as program, _memory_file(filtering) as rules, _memory_file(b"") as report:
        command = [*sandbox, "--perms", "0444", "--ro-bind-data", str(program), "/program.py", "--remount-ro", "/"]
        command += ["--seccomp", str(rules), "--json-status-fd", str(report)]
        command += ["--", "/python/bin/python3", "-s", "-S", "-P", "-c", _launcher(memory_mb)]
        capture = _capture(command, (program, rules, report), deadline, output_bytes)
        code = _exit_code(os.pread(report, 10_000, 0))
    if code is None and not capture.timed_out:  # bubblewrap did not get as far as the program: no verdict on it
        raise _no_sandbox(_last_line(capture.errors) or "bubblewrap ended without a word")
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
    elif code == _ASKED:
        status, detail = "asked_input", "it reads input, and there is none"
    elif code == 128 + signal.SIGSYS:
        status, detail = "refused", "a system call outside the sandbox's rules: the network, another process, …"
    elif code == 0:
        status, detail = ("ok", "") if output.strip() else ("no_output", "it printed nothing")
    return ProgramResult(status, output, capture.cut, detail)


def _last_line(text: bytes) -> str:
    line = text.decode("utf-8", "replace").rstrip().rpartition("\n")[2].strip()
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line[:300])


# ---------------------------------------------------------------- the sandbox


@functools.cache
def _sandbox() -> tuple[str, ...]:
    """Bubblewrap and its arguments, except for those that belong to one program."""
    bwrap = shutil.which("bwrap")
    if bwrap is None or shutil.which("ldd") is None:
        raise _no_sandbox(f"there is no {'ldd' if bwrap else 'bwrap'} on the PATH of this {sys.platform} machine")
    # In a user namespace of its own root's program would stay root for the kernel, which no limit on threads binds. So
    # for root there is none, and the launcher becomes nobody before anything else.
    user = f"--unshare-user --uid {_NOBODY} --gid {_NOBODY}"
    if os.getuid() == 0:
        user = "--cap-add CAP_SETUID --cap-add CAP_SETGID"
    options = f"""--unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try --cap-drop ALL {user}
        --die-with-parent --new-session --hostname sandbox
        --clearenv --setenv LD_LIBRARY_PATH /libraries --setenv PYTHONUTF8 1 --setenv PYTHONHASHSEED 0
        --setenv MALLOC_ARENA_MAX 1
        --dev-bind /dev/null /dev/null --perms 1777 --size {SCRATCH_BYTES} --tmpfs /tmp --chdir /tmp"""
    return (bwrap, *_read_only(), *options.split())


def _read_only() -> Iterator[str]:
    binds = _visible_files()
    folders = {str(folder) for target in (*binds, "/dev/null") for folder in Path(target).parents}
    for folder in sorted(folders - {"/"}):
        yield from ("--perms", "0755", "--dir", folder)
    for target, source in binds.items():
        yield from ("--ro-bind-try", source, target)
        if os.path.isdir(f"{source}/site-packages"):  # other packages beside the standard library: covered
            yield from ("--tmpfs", f"{target}/site-packages", "--remount-ro", f"{target}/site-packages")


def _visible_files() -> dict[str, str]:
    """The sandbox's files and where they come from: Python, the libraries it is linked with, and the packages."""
    from importlib.util import find_spec

    python, stdlib = os.path.realpath(sys.executable), Path(os.path.realpath(os.__file__)).parent
    binds = {"/python/bin/python3": python, f"/python/{stdlib.parent.name}/{stdlib.name}": str(stdlib)}
    for name in PACKAGES:
        if (spec := find_spec(name)) and spec.submodule_search_locations:
            binds[f"/packages/{name}"] = spec.submodule_search_locations[0]
    left_out = ("_tkinter", "_curses", "readline", "nis.")  # of no use there, and linked with dozens of libraries
    modules = [str(file) for file in stdlib.glob("lib-dynload/*.so") if not file.name.startswith(left_out)]
    listing = subprocess.run(["ldd", python, *modules], capture_output=True, text=True, check=False).stdout
    for library in set(re.findall(r"(/.*) \(0x", listing)):
        # The loader's place is written in the executable; the other libraries are found by LD_LIBRARY_PATH.
        folder, name = os.path.split(library)
        binds[library if name.startswith("ld-") else f"/libraries/{name}"] = library
        if name.startswith("libc."):
            binds["/libraries/libgcc_s.so.1"] = f"{folder}/libgcc_s.so.1"  # libc loads it where a thread exits
    return binds


def _launcher(memory_mb: int) -> str:
    import inspect

    limits = {
        "RLIMIT_AS": memory_mb * 2**20,
        "RLIMIT_NPROC": 256,  # threads, as there are no other processes; root's programs share this if run together
        "RLIMIT_NOFILE": 64,
        "RLIMIT_FSIZE": SCRATCH_BYTES,
        "RLIMIT_CORE": 1,  # 0 would still start a crash handler such as apport; core(5)
        "RLIMIT_MSGQUEUE": 0,
    }
    user = None if os.getuid() else _NOBODY
    return f"{inspect.getsource(_launch)}\n_launch({limits}, {user}, {_ASKED})"


def _launch(limits: dict[str, int], user: int | None, asked: int) -> None:
    """Runs inside the sandbox ahead of the program: the text of this function is what Python is started with there."""
    import builtins
    import io
    import os
    import resource
    import select
    import sys

    # Bubblewrap dies with its parent only from here on; if that is dead already, this pipe has lost its other end.
    if select.select([0], [], [], 0)[0]:
        os._exit(1)
    os.close(0)
    os.open("/dev/null", os.O_RDONLY)  # takes the place of 0
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    for name, limit in limits.items():
        resource.setrlimit(getattr(resource, name), (limit, limit))

    def finish(*_: object) -> int:
        # An exception could be caught, and a guess be printed in place of an answer.
        try:
            sys.stdout.flush()
        finally:
            os._exit(asked)

    class Input(io.RawIOBase):
        readable, readinto = lambda _: True, finish

    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(Input()))  # type: ignore[misc]
    sys.addaudithook(lambda event, values: finish() if event == "open" and values[0] == 0 else None)  # open(0)
    sys.argv = ["program.py"]
    sys.path.append("/packages")
    sys.set_int_max_str_digits(0)  # the digits of 2**20000 are a fair question, and the time is limited anyway
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]
    with open("/program.py", "rb") as file:
        code = compile(file.read().decode(), "program.py", "exec")
    main = vars(sys.modules["__main__"])
    del main["_launch"]
    exec(code, main)


# ---------------------------------------------------------------- system calls

# Numbers on x86_64/aarch64, from the kernel's unistd.h; one number where only x86_64 has the call. What needs a
# capability, such as mount, fails by itself.
_KILLED = """fork 57, vfork 58, unshare 272/97, setns 308/268, ptrace 101/117, kcmp 312/272,
    process_vm_readv 310/270, process_vm_writev 311/271, add_key 248/217, request_key 249/218, keyctl 250/219,
    bpf 321/280, perf_event_open 298/241, modify_ldt 154"""
# The kernel says that these do not exist: memory beyond the address space, and what libraries try and can do without.
_MISSING = """memfd_create 319/279, shmget 29/194, semget 64/190, msgget 68/186, mq_open 240/180, userfaultfd 323/282,
    io_setup 206/0, vmsplice 278/75, splice 275/76, tee 276/77"""
# And so it says of all from here on, numbered alike everywhere: io_uring, the newer mount calls, calls to come, and
# clone3, whose flags a filter cannot see; libc then takes clone.
_FIRST_NEW = 424
# Killed unless the first argument has the CLONE_THREAD bit, and so does not ask for a process, or equals AF_UNIX, whose
# sockets reach nobody from in here, while asyncio and `pwd` cannot do without.
_BY_ARGUMENT = {"clone 56/220": ("bit", 0x10000), "socket 41/198": ("equal", 1), "socketpair 53/199": ("equal", 1)}
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*


@functools.cache
def _filter(machine: str) -> bytes:
    """A seccomp program in classic BPF: one `struct sock_filter` (code, jump if true, jump if false, value) a step."""
    if machine not in _MACHINES:
        raise _no_sandbox(f"it knows the system calls of {' and '.join(_MACHINES)}, and this is {machine}")
    kill, missing, allow = 0x80000000, 0x00050000 | 38, 0x7FFF0000  # SECCOMP_RET_*; 38 is ENOSYS
    load, equal, at_least, any_bit, answer = 0x20, 0x15, 0x35, 0x45, 0x06
    # In `struct seccomp_data` the call's number is at 0, the machine at 4, the first argument at 16.
    steps = [(load, 0, 0, 4), (equal, 1, 0, _MACHINES[machine]), (answer, 0, 0, kill), (load, 0, 0, 0)]
    for calls, result in ((_KILLED, kill), (_MISSING, missing)):
        for number in _numbers(calls, machine):
            steps += [(equal, 0, 1, number), (answer, 0, 0, result)]
    steps += [(at_least, 0, 1, _FIRST_NEW), (answer, 0, 0, missing)]
    for call, (test, value) in _BY_ARGUMENT.items():
        (number,) = _numbers(call, machine)
        wanted = any_bit if test == "bit" else equal
        steps += [(equal, 0, 4, number), (load, 0, 0, 16), (wanted, 1, 0, value), (answer, 0, 0, kill), (load, 0, 0, 0)]
    return b"".join(struct.pack("HBBI", *step) for step in [*steps, (answer, 0, 0, allow)])


def _numbers(calls: str, machine: str) -> list[int]:
    column = list(_MACHINES).index(machine)
    rows = [call.split()[1].split("/") for call in calls.split(",")]
    return [int(row[column]) for row in rows if column < len(row)]
