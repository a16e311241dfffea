"""The sandbox of `delcore.programs`: how bubblewrap is called, what runs ahead of a program, and its system calls."""

import functools
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from delcore.errors import InputError

PACKAGES = ("sympy", "mpmath")
"""What a program can import besides the standard library, where it is installed here."""

SCRATCH_BYTES = 16 * 2**20
NOBODY = 65534
ASKED = 90  # exit status of a program that read its input; one that fakes it gains nothing


def no_sandbox(reason: str) -> InputError:
    return InputError(
        f"Programs are only run in a sandbox, and it does not work here: {reason}. On Linux install bubblewrap 0.8 or "
        "newer (apt-get install bubblewrap), and allow user namespaces or be root; or score without running programs."
    )


@functools.cache
def sandbox_command() -> tuple[str, ...]:
    """Bubblewrap and its arguments, except for those that belong to one program."""
    bwrap = shutil.which("bwrap")
    if bwrap is None or shutil.which("ldd") is None:
        raise no_sandbox(f"there is no {'ldd' if bwrap else 'bwrap'} on the PATH of this {sys.platform} machine")
    # In a user namespace of its own root's program would stay root for the kernel, which no limit on threads binds. So
    # for root there is none, and the launcher becomes nobody before anything else.
    user = f"--unshare-user --uid {NOBODY} --gid {NOBODY}"
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


def launcher(memory_mb: int) -> str:
    import inspect

    limits = {
        "RLIMIT_AS": memory_mb * 2**20,
        "RLIMIT_NPROC": 256,  # threads, as there are no other processes; root's programs share this if run together
        "RLIMIT_NOFILE": 64,
        "RLIMIT_FSIZE": SCRATCH_BYTES,
        "RLIMIT_CORE": 1,  # 0 would still start a crash handler such as apport; core(5)
        "RLIMIT_MSGQUEUE": 0,
    }
    user = None if os.getuid() else NOBODY
    return f"{inspect.getsource(_launch)}\n_launch({limits}, {user}, {ASKED})"


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
def seccomp_filter(machine: str) -> bytes:
    """A seccomp program in classic BPF: one `struct sock_filter` (code, jump if true, jump if false, value) a step."""
    if machine not in _MACHINES:
        raise no_sandbox(f"it knows the system calls of {' and '.join(_MACHINES)}, and this is {machine}")
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
