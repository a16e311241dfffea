"""Programs in the sandbox: six outcomes, and attacks on the boundary. All are real runs, and each attack is followed by
a harmless program that must run as if nothing had been."""

import contextlib
import os
import platform
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import delcore.programs as programs
from delcore import InputError, _sandbox
from delcore.programs import ProgramResult, check_sandbox, run_program, run_programs

HARMLESS = ProgramResult("ok", "42\n")
CAUGHT = "try:\n    {}\nexcept BaseException as error:\n    print(type(error).__name__)\nprint('went on')"
SYSCALL = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers and machine code are x86_64's")


@pytest.fixture(scope="session")
def run():
    try:
        check_sandbox()
    except InputError as error:
        pytest.skip(f"no sandbox: {error}")
    return run_program


def sandboxes() -> list[str]:
    """Processes of any sandbox, seen from outside."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # gone meanwhile
            if b"\n_launch(" in entry.read_bytes():
                found.append(entry.parent.name)
    return found


def within(seconds: float, condition) -> bool:
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met


@pytest.fixture
def attack(run):
    def attack(source: str, **limits) -> ProgramResult:
        result = run(source, **limits)
        assert within(1, lambda: not sandboxes())
        assert run("print(6 * 7)") == HARMLESS
        return result

    return attack


# ---------------------------------------------------------------- six outcomes


@pytest.mark.parametrize(
    ("source", "status", "output"),
    [
        ("print(6 * 7)", "ok", "42\n"),
        ("print('²')", "ok", "²\n"),
        ("print(1, end='')", "ok", "1"),
        ("", "no_output", ""),
        ("print()\nprint('  ')", "no_output", "\n  \n"),
        ("x = 42\nx", "no_output", ""),
        ("print(5)\n1 / 0", "error", "5\n"),
        ("raise KeyboardInterrupt", "error", ""),
        ("raise SystemError", "error", ""),
        ("print(5", "error", ""),
        ("print(5)\nwhile True: pass", "timeout", ""),
        ("print(5, flush=True)\nwhile True: pass", "timeout", "5\n"),
        ("print(input())", "asked_input", ""),
        ("import os\nos.fork()", "refused", ""),
    ],
)
def test_outcomes_are_told_apart(attack, source, status, output):
    result = attack(source, seconds=0.4 if status == "timeout" else 30)
    assert (result.status, result.output) == (status, output)
    assert bool(result.detail) == (status != "ok")
    assert not result.cut


@pytest.mark.parametrize(
    "leave",
    ["exit()", "quit()", "exit(0)", "import sys\nsys.exit(0)", "import sys\nsys.exit()", "raise SystemExit"]
    + ["import os, sys\nsys.stdout.flush()\nos._exit(0)", "import sys\nsys.stdout.close()"]
    + ["import os, sys, threading\nsys.stdout.flush()\nthreading.Thread(target=os._exit, args=(0,)).start()"]
    + ["import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()"]
    + ["import sys, threading\nthreading.Thread(target=sys.exit, args=(1,)).start()"],
)
def test_program_that_leaves_early_keeps_what_it_printed(run, leave):
    result = run(f"print(5)\n{leave}")
    assert (result.status, result.output) == ("ok", "5\n")


@pytest.mark.parametrize(
    ("leave", "detail"),
    [
        ("import sys\nsys.exit(1)", "exit status 1"),
        ("import sys\nsys.exit('no solution')", "no solution"),
        ("import os, signal, sys\nsys.stdout.flush()\nos.kill(os.getpid(), signal.SIGKILL)", "exit status 137"),
        ("import os, sys\nsys.stdout.flush()\nos.abort()", "exit status 134"),
        ("import ctypes, sys\nsys.stdout.flush()\nctypes.string_at(0)", "exit status 139"),
        ("raise ValueError('several\\nlines')", "lines"),
        ("import sympy\nsympy.nothing", "AttributeError: module 'sympy' has no attribute 'nothing'"),
        ("import numpy", "ModuleNotFoundError: No module named 'numpy'"),
        ("raise ValueError('\\x1b[2J')", "ValueError: \ufffd[2J"),  # nothing that a terminal would obey
    ],
)
def test_failure_is_an_error_with_its_reason_and_output(run, leave, detail):
    assert run(f"print(5)\n{leave}") == ProgramResult("error", "5\n", detail=detail)


@pytest.mark.parametrize(
    "read",
    ["input()", "input('n? ')", "import sys; sys.stdin.read()", "import sys; sys.stdin.readlines()"]
    + ["import sys; list(sys.stdin)", "import sys; sys.stdin.buffer.read(1)", "import sys; sys.__stdin__.readline()"]
    + ["open(0).read()", "import fileinput; list(fileinput.input())"]
    + ["import threading; threading.Thread(target=input).start(); threading.Event().wait()"],
)
def test_program_that_reads_input_ends_there_although_it_catches_everything(run, read):
    started = time.monotonic()
    result = run("print('before')\n" + CAUGHT.format(read), seconds=30)
    assert result.status == "asked_input"
    assert result.output.startswith("before\n")
    assert "went on" not in result.output
    assert time.monotonic() - started < 10


def test_program_that_brings_its_own_input_may_read_it(run):
    assert run("import io, sys\nsys.stdin = io.StringIO('6\\n7')\nprint(int(input()) * int(input()))") == HARMLESS


# ---------------------------------------------------------------- what a program may rely on


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("import math\nprint(math.comb(10, 3))", "120\n"),
        ("from sympy import *\nx = symbols('x')\nprint(solve(x**2 - 5*x + 6))", "[2, 3]\n"),
        ("import mpmath\nprint(mpmath.mpf(1) / 3)", "0.333333333333333\n"),
        ("def f(n): return n * f(n - 1) if n else 1\nif __name__ == '__main__': print(f(5))", "120\n"),
        ("from dataclasses import dataclass\n@dataclass\nclass A:\n    n: int\nprint(A(3))", "A(n=3)\n"),
        ("import sys\nprint(len(str(2**20000)), sys.argv)", "6021 ['program.py']\n"),
        (
            "import datetime, fractions, decimal, itertools, random, statistics, re, json, hashlib, sqlite3\nprint(1)",
            "1\n",
        ),
        ("import asyncio\nasync def f(): return 3\nprint(asyncio.run(f()))", "3\n"),
        ("from concurrent.futures import ThreadPoolExecutor as P\nprint(sum(P(8).map(abs, range(-5, 0))))", "15\n"),
        ("open('a', 'w').write('7')\nimport tempfile\ntempfile.TemporaryFile()\nprint(open('a').read())", "7\n"),
        ("print(sorted(n for n in globals() if not n.startswith('__')))", "[]\n"),
        ("print(__builtins__ is not None, ''.__class__.__base__.__subclasses__() != [])", "True True\n"),
    ],
)
def test_ordinary_program_gives_its_answer(run, source, output):
    result = run(source, seconds=30)
    assert (result.output, result.status) == (output, "ok"), result.detail


def test_same_program_prints_the_same_again(run):
    source = "print({str(i) for i in range(50)})"
    assert run(source) == run(source)


def test_nothing_survives_a_program(run):
    run("import os, math\nmath.pi = 3\nopen('/tmp/left', 'w').write('x')\nos.environ['LEFT'] = '1'")
    result = run("import os, math\nprint(math.pi > 3, os.listdir('/tmp'), 'LEFT' in os.environ, os.getcwd())")
    assert result.output == "True [] False /tmp\n"


def test_program_has_the_least_memory_it_may_be_given(run):
    assert run("print(6 * 7)", memory_mb=64) == HARMLESS


# ---------------------------------------------------------------- odd sources and odd output


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("a\0b", "error"),
        ("print('\ud800')", "error"),
        ("print(chr(0xD800))", "error"),
        ("# coding: latin-1\nassert len('²') == 1\nprint(1)", "ok"),
        ("print(1)\r\nprint(2)\r\n", "ok"),
        ("(" * 100_000, "error"),
        ("print(1)" + " " * 999_992, "ok"),
        ("print(1)" + " " * 999_993, "refused"),
        ("#²" + "²" * 499_999, "refused"),
    ],
    ids="nul surrogate surrogate-printed cookie crlf brackets longest too-long too-long-in-bytes".split(),
)
def test_odd_source_has_an_outcome(attack, source, status):
    result = attack(source, seconds=30)
    assert result.status == status
    assert "\n" not in result.detail


def test_fifty_megabytes_of_output_are_cut_and_marked(attack):
    result = attack("print('x' * 50_000_000)", seconds=30)
    assert result == ProgramResult("ok", "x" * 65_536, cut=True)


@pytest.mark.parametrize(("size", "cut"), [(9, False), (10, False), (11, True)])
def test_output_is_cut_only_beyond_what_is_kept(run, size, cut):
    assert run(f"print('x' * {size}, end='')", output_bytes=10) == ProgramResult("ok", "x" * min(size, 10), cut=cut)


def test_output_without_end_is_a_timeout(attack):
    result = attack("while True: print('x' * 1000)", seconds=0.5)
    assert (result.status, result.cut, len(result.output)) == ("timeout", True, 65_536)


def test_error_output_without_measure_is_dropped(attack):
    assert attack("import sys\nsys.stderr.write('y' * 50_000_000)\nprint(42)", seconds=30) == HARMLESS


def test_bytes_that_are_no_text_are_replaced(run):
    assert run(r"import sys; sys.stdout.buffer.write(b'\xff\x004')").output == "\ufffd\x004"


# ---------------------------------------------------------------- time


SLOW = [
    "import time\ntime.sleep(60)",
    "9 ** 9 ** 9",
    "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
    "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "import os, time\nfor i in range(3): os.close(i)\ntime.sleep(60)",
    "import atexit, time\natexit.register(time.sleep, 60)",
    "import signal, time\nfor s in set(signal.Signals) - {9, 19}: signal.signal(s, signal.SIG_IGN)\ntime.sleep(60)",
    "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
]


def test_time_is_up_for_the_whole_sandbox(run):
    started = time.monotonic()
    results = list(run_programs(SLOW, workers=len(SLOW), seconds=0.8))
    assert time.monotonic() - started < 30, "they would take a minute, or for ever"
    assert [result.status for result in results] == ["timeout"] * len(SLOW)
    assert within(1, lambda: not sandboxes())
    assert run("print(6 * 7)") == HARMLESS


@pytest.mark.parametrize("milliseconds", [0, 200, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 10, 20, 40))])
def test_sandbox_dies_with_the_process_that_started_it(run, milliseconds):
    code = "from delcore.programs import _run\n_run(b'import time; time.sleep(20)', 20.0, 512, 9)"
    process = subprocess.Popen([sys.executable, "-c", code])
    assert within(30, sandboxes)
    time.sleep(milliseconds / 1000)
    process.kill()
    process.wait()
    assert within(2, lambda: not sandboxes())


# ---------------------------------------------------------------- processes and the network


@pytest.mark.parametrize(
    "source",
    [
        "import os; os.fork()",
        "import os; os.system('true')",
        "import os; os.posix_spawn('/python/bin/python3', ['python3'], {})",
        "import subprocess; [subprocess.Popen(['sleep', '60']) for _ in range(3)]",
        "import multiprocessing; multiprocessing.Process(target=print).start()",
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
        "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "import socket; socket.socketpair(30)",  # AF_TIPC, where the kernel has it
        "import socket; socket.getaddrinfo('localhost', 80)",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')",
        "import asyncio; asyncio.run(asyncio.create_subprocess_exec('true'))",
    ],
)
def test_second_process_or_socket_ends_the_program_although_it_catches_everything(attack, source):
    result = attack(CAUGHT.format(source))
    assert (result.status, result.output) == ("refused", "")


def test_listener_on_the_machine_sees_no_connection(attack):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        address = listener.getsockname()
        assert attack(f"import socket; socket.create_connection({address})").status == "refused"
        with pytest.raises(TimeoutError):
            listener.accept()


@on_x86_64
@pytest.mark.parametrize(
    "call",
    [
        "56, 17, 0, 0, 0, 0",
        "56, 0x10000000 | 17, 0, 0, 0, 0",
        "57",
        "58",
        "41, 2, 1, 0",
        "101, 0, 0, 0, 0",
        "272, 0x10000000",
    ]
    + [
        "308, 0, 0",
        "250, 0, -3, 0",
        "248, 0, 0, 0, 0, -3",
        "321, 0, 0, 0",
        "298, 0, 0, -1, -1, 0",
        "310, 1, 0, 0, 0, 0, 0",
    ],
)
def test_raw_system_call_outside_the_rules_is_refused(attack, call):
    assert attack(f"{SYSCALL}libc.syscall({call})\nprint('went on')").status == "refused"


@on_x86_64
@pytest.mark.parametrize(
    "call",
    ["319, b'x', 0", "29, 0, 4096, 0o1600", "425, 1, 0", "435, 0, 0", "428, -100, b'/', 1", "434, 1, 0", "206, 1, 0"]
    + ["0x40000000 | 57", "0x40000000 | 41, 2, 1, 0", "500", "-1"],  # the x32 numbers, and calls of kernels to come
)
def test_raw_system_call_for_hidden_memory_or_a_new_one_is_not_there(run, call):
    assert run(f"{SYSCALL}print(libc.syscall({call}), ctypes.get_errno())").output == "-1 38\n"


@on_x86_64
def test_system_call_of_the_32_bit_machine_is_refused(attack):
    source = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes([0xB8, 2, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # mov eax, 2 (fork); int 0x80; ret
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())
"""
    assert attack(source).status == "refused"


def test_program_cannot_kill_what_it_runs_in(attack):
    source = """
import os, signal
def alive(pid):
    try: os.kill(pid, 0)
    except ProcessLookupError: return False
    except OSError: pass
    return True
for target in (1, -1, os.getppid()):
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV):
        try: os.kill(target, number)
        except OSError: pass
print(os.getpid() < 10, [pid for pid in range(1, 33000) if pid != os.getpid() and alive(pid)])
"""
    assert attack(source).output == "True [1]\n"


def test_program_that_executes_another_keeps_its_limits(attack):
    inner = """
import os, resource, sys
try: bytearray(3 * 10**9)
except MemoryError: print('no memory')
try: resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
except (OSError, ValueError): print('no more')
try: os.setuid(0)
except OSError: print('not root')
sys.stdout.flush()
os.fork()
"""
    result = attack(f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', {inner!r}])")
    assert (result.output, result.status) == ("no memory\nno more\nnot root\n", "refused")


# ---------------------------------------------------------------- files, secrets, rights


def test_environment_holds_nothing_of_the_parent(run, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "a-secret")
    result = run("import os\nprint(sorted(os.environ), dict(os.environ))")
    assert "secret" not in result.output
    assert result.output.startswith("['LD_LIBRARY_PATH', 'MALLOC_ARENA_MAX', 'PWD', 'PYTHONHASHSEED', 'PYTHONUTF8']")


def test_only_the_three_streams_are_open(run, tmp_path):
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        source = "import os\nfor fd in range(64):\n    try: os.fstat(fd)\n    except OSError: continue\n    print(fd)"
        assert run(source).output == "0\n1\n2\n"


def test_folders_of_the_machine_are_not_there(run, tmp_path):
    (tmp_path / "secret").write_text("s")
    places = ["/etc/passwd", "/proc/self/environ", "/sys", "/home", "/root", "/usr/bin", "/var", "/run", "/dev/shm"]
    places += [str(tmp_path), str(Path.home()), str(Path(programs.__file__).parent), sys.prefix, "/bin/sh", "/dev/tty"]
    places = [place for place in places if place != "/"]  # the home of some users
    result = run(
        f"import os\nprint([p for p in {places} if os.path.exists(p)])\nprint(sorted(os.listdir('/packages')))"
    )
    assert result.output == "[]\n['mpmath', 'sympy']\n"


def test_root_folder_holds_python_and_scratch_only(run):
    top = {"dev", "libraries", "packages", "program.py", "python", "tmp"}
    found = set(eval(run("import os\nprint(os.listdir('/'))").output))
    assert top <= found <= top | {"lib", "lib64"}  # where the loader lies
    assert run("import os\nprint([os.listdir(p) for p in ('/dev', '/tmp')])").output == "[['null'], []]\n"
    packages = "import os, sys\nprint(os.listdir(os.path.dirname(os.__file__) + '/site-packages'))"
    assert run(packages).output in ("[]\n", "")


def test_nothing_but_scratch_can_be_written(attack):
    source = """
import os
for folder, folders, files in os.walk('/'):
    for name in ('.', *files):
        path = os.path.join(folder, name)
        if os.access(path, os.W_OK) and not os.path.islink(path): print(path)
for path in ('../outside.txt', '/packages/sympy/x', '/python/x', '/libraries/x', '/dev/x', '/x', '/program.py'):
    try: open(path, 'w'); print(path)
    except OSError: pass
    try: os.chmod(os.path.dirname(path) or '/', 0o777); print('chmod', path)
    except OSError: pass
"""
    assert attack(source, seconds=30).output == "/tmp/.\n/dev/null\n"


def test_program_is_nobody_and_stays_so(run):
    source = f"""{SYSCALL}
import os, resource
print(os.getresuid(), os.getresgid(), os.getgroups(), os.uname().nodename)
head, caps = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
libc.capget(head, caps)
print(caps[0], caps[1], caps[3], caps[4], libc.prctl(39, 0, 0, 0, 0), libc.prctl(21, 0, 0, 0, 0))
for forbidden in (
    lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgroups([0]), lambda: os.chroot('/tmp'),
    lambda: os.chown('/tmp', 0, 0), lambda: os.mknod('k', 0o60666, os.makedev(8, 0)), lambda: os.nice(-5),
    lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    lambda: resource.setrlimit(resource.RLIMIT_NPROC, (999, 999)),
):
    try: print('did', forbidden())
    except (OSError, ValueError): pass
print(libc.mount(b'none', b'/tmp', b'tmpfs', 0, 0), libc.umount2(b'/tmp', 2), libc.sethostname(b'x', 1))
"""
    assert run(source).output == "(65534, 65534, 65534) (65534, 65534, 65534) [] sandbox\n0 0 0 0 1 2\n-1 -1 -1\n"


def test_unix_sockets_reach_nobody(run):
    source = """
import socket
a, b = socket.socketpair(type=socket.SOCK_DGRAM)
for name in ('/run/systemd/notify', '\\0anyone'):
    try: a.sendto(b'x', name); print('sent')
    except OSError as error: print(type(error).__name__)
"""
    assert run(source).output == "FileNotFoundError\nConnectionRefusedError\n"


# ---------------------------------------------------------------- resources


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("x = [0] * 10**10", "error"),
        ("x = []\nwhile True: x.append(bytearray(10**7))", "error"),
        ("import mmap\nx = [mmap.mmap(-1, 2**28) for _ in range(9)]", "error"),
        ("def f(n): return f(n + 1) + 1\nf(0)", "error"),
        (
            "import sys\nsys.setrecursionlimit(10**9)\nclass A: __getattr__ = lambda s, n: getattr(s, n + 'x')\nA().a",
            "error",
        ),
        ("import os\nwhile True: os.fork()", "refused"),
        ("open('big', 'wb').truncate(2**40)", "error"),
        ("open('big', 'wb').write(bytes(2**25))", "error"),
        ("for i in range(99): open(str(i), 'wb').write(bytes(2**20))", "error"),
        ("x = [open('/dev/null') for _ in range(99)]", "error"),
        ("import threading\nwhile True: threading.Thread(target=threading.Event().wait, daemon=True).start()", "error"),
    ],
    ids="list appended mmap recursion c-recursion forks sparse file files open threads".split(),
)
def test_bomb_is_stopped_before_the_time_limit(attack, source, status):
    assert attack(source, seconds=30, memory_mb=256).status == status


def test_memory_cannot_be_hidden_in_pipes_and_sockets(attack):
    source = """
import array, os, socket
pairs, count = [], 0
try:
    while True:
        pairs.append(socket.socketpair())
        while True:
            ends = os.pipe()
            pairs[-1][0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', ends))])
            for end in ends: os.close(end)
            count += 2
except OSError: print(count <= 128)
"""
    assert attack(source).output == "True\n"


@pytest.mark.slow
def test_a_million_empty_files_are_freed_with_the_program(attack):
    source = "import os\nn = 0\nwhile n < 10**6:\n    os.mknod(str(n)); n += 1\nprint(n)"
    assert attack(source, seconds=60).status in ("ok", "error")
    assert attack(source, seconds=2).status in ("ok", "timeout")


# ---------------------------------------------------------------- several at once


def test_programs_come_back_in_order_whatever_they_do(run):
    sources = [f"print({i})" for i in range(12)]
    sources[3], sources[5], sources[7] = "while True: pass", "import os; os.fork()", "print(input())"
    results = list(run_programs(sources, workers=3, seconds=1.5))
    ordinary = {i: result for i, result in enumerate(results) if i not in (3, 5, 7)}
    assert all(result == ProgramResult("ok", f"{i}\n") for i, result in ordinary.items())
    assert [results[i].status for i in (3, 5, 7)] == ["timeout", "refused", "asked_input"]
    assert within(1, lambda: not sandboxes())


def test_programs_with_many_threads_run_side_by_side(run):
    source = """
import threading, time
for _ in range(50): threading.Thread(target=time.sleep, args=(0.2,)).start()
print(42)
"""
    assert list(run_programs([source] * 2, workers=2, seconds=30)) == [HARMLESS] * 2


def test_caller_may_be_a_thread(run):
    results = []
    thread = threading.Thread(target=lambda: results.append(run("print(6 * 7)")))
    thread.start()
    thread.join()
    assert results == [HARMLESS]


# ---------------------------------------------------------------- where there is no sandbox


@pytest.fixture
def forget(monkeypatch):
    """The sandbox is looked for anew, in this test and after it."""
    functions = [programs.check_sandbox, _sandbox.sandbox_command]
    for function in functions:
        function.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    for function in functions:
        function.cache_clear()


def refusal() -> str:
    """The message where nothing may be run: one line, the same from each way in."""
    messages = set()
    for enter in (check_sandbox, lambda: run_program("print(1)"), lambda: list(run_programs(["print(1)"]))):
        with pytest.raises(InputError) as caught:
            enter()
        messages.add(str(caught.value))
    (message,) = messages
    assert "\n" not in message
    assert "apt-get install bubblewrap" in message
    return message


def fake_bwrap(folder: Path, script: str) -> None:
    (folder / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bwrap").chmod(0o755)


def test_without_bubblewrap_nothing_is_run(forget, tmp_path):
    forget.setenv("PATH", str(tmp_path))
    forget.delattr(os, "memfd_create")  # which only Linux has
    assert "no bwrap on the PATH" in refusal()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        ("exit 0", "without a word"),
        ("echo 42; echo '{\"exit-code\": 0}'", "without a word"),
        ("exec sleep 0", "without a word"),
    ],
)
def test_bubblewrap_that_cannot_work_here_is_found_out(forget, tmp_path, script, reason):
    fake_bwrap(tmp_path, script)
    forget.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert reason in refusal()


def test_bubblewrap_that_isolates_nothing_is_found_out(forget, tmp_path):
    """It reports that the first program ran and printed 42, as a sandbox without a filter would."""
    descriptor = "while [ $1 != --json-status-fd ]; do shift; done"
    fake_bwrap(tmp_path, f"""{descriptor}; echo 42; echo '{{"exit-code": 0}}' > /proc/self/fd/$2""")
    forget.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert "'ok', not 'refused'" in refusal()


def test_unknown_machine_has_no_sandbox(forget):
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    forget.setattr(platform, "machine", lambda: "riscv64")
    assert "this is riscv64" in refusal()


def test_sandbox_that_fails_later_gives_no_verdict(run, forget):
    check_sandbox()
    forget.setattr(programs, "sandbox_command", lambda: ("/bin/sh", "-c", "echo bwrap: out of memory >&2; exit 1"))
    with pytest.raises(InputError, match="out of memory"):
        run_program("print(1)")


@pytest.mark.parametrize("limits", [{"seconds": 0.0}, {"seconds": float("nan")}, {"memory_mb": 1}, {"output_bytes": 0}])
def test_limit_that_nothing_can_run_under_is_refused(limits):
    with pytest.raises(InputError, match=next(iter(limits))):
        run_program("print(1)", **limits)


def as_someone_else(*command: str, code: str) -> str:
    """Standard output of code that runs under a wrapper such as setpriv, with a copy of the three modules it needs."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "delcore"
        package.mkdir()
        (package / "__init__.py").write_text("")
        for module in ("errors", "_sandbox", "programs"):
            shutil.copy(Path(programs.__file__).with_name(f"{module}.py"), package)
        for path in (Path(folder), package):
            path.chmod(0o755)
        process = subprocess.run(
            [*command, "-c", code], cwd=folder, capture_output=True, text=True, check=False, timeout=60
        )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_root_without_rights_as_in_a_plain_container_is_told_so(run):
    if os.getuid() or not shutil.which("setpriv"):
        pytest.skip("takes root's capabilities away, which needs root and setpriv")
    code = "from delcore.programs import check_sandbox\ntry: check_sandbox()\nexcept ValueError as error: print(error)"
    message = as_someone_else("setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, code=code)
    assert "does not work here" in message
    assert message.count("\n") == 1


def test_ordinary_user_gets_the_same_sandbox(run):
    """The other half of `sandbox_command`: what root takes from being nobody, a user takes from a user namespace."""
    python = "/usr/bin/python3"
    if os.getuid() or not shutil.which("setpriv") or not Path(python).exists():
        pytest.skip("becomes an ordinary user, which needs root, setpriv and a system Python")
    if subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False).returncode:
        pytest.skip("the system Python is older than 3.11")
    code = """
from delcore.programs import run_program
for source in (
    'print(6 * 7)', 'import os; os.fork()', 'import os; os.setuid(0)', 'import os; print(os.getuid())',
    'open("/x", "w")', 'open("/python/x", "w")', 'print(input())', 'x = [0] * 10**10', 'import os; os.listdir("/proc")',
    'import threading\\nwhile True: threading.Thread(target=threading.Event().wait, daemon=True).start()',
    'import os\\nfor s in (9, 19, 15): os.kill(1, s)\\nprint(42)', 'import socket; socket.socket()',
): print(run_program(source).status, end=' ')
"""
    user = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
    try:
        found = as_someone_else(*user, python, code=code)
    except AssertionError as error:
        if "does not work here" in str(error):
            pytest.skip("user namespaces are closed to ordinary users here")
        raise
    assert found.split() == "ok refused error ok error error asked_input error error error ok refused".split()


# ---------------------------------------------------------------- the filter, read as the kernel reads it

KILL, MISSING, ALLOW = 0x80000000, 0x00050026, 0x7FFF0000
ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def verdict(machine: str, call: int, argument: int = 0, arch: int | None = None) -> int:
    steps = list(struct.iter_unpack("HBBI", _sandbox.seccomp_filter(machine)))
    data = struct.pack("<IIQQ", call & 0xFFFFFFFF, arch or ARCHES[machine], 0, argument)
    value, at = 0, 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        if code == 0x06:
            return operand
        if code == 0x20:
            (value,) = struct.unpack_from("<I", data, operand)
        else:
            met = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            at += if_true if met else if_false


@pytest.mark.parametrize(
    ("machine", "read", "openat", "execve", "clone", "sockets", "killed", "missing"),
    [
        ("x86_64", 0, 257, 59, 56, (41, 53), [57, 58, 101, 250, 272, 308, 310, 321], [29, 206, 319, 323]),
        ("aarch64", 63, 56, 221, 220, (198, 199), [97, 117, 219, 268, 270, 280], [0, 194, 279, 282]),
    ],
)
def test_filter_decides_by_machine(machine, read, openat, execve, clone, sockets, killed, missing):
    assert {verdict(machine, call) for call in (read, openat, execve)} == {ALLOW}
    assert {verdict(machine, call) for call in killed} == {KILL}
    assert {verdict(machine, call) for call in (*missing, 424, 425, 435, 5000, 0x40000000 | read, -1)} == {MISSING}
    assert verdict(machine, clone, 0x3D0F00) == ALLOW  # what pthread_create asks for
    assert verdict(machine, clone, signal.SIGCHLD) == verdict(machine, clone, 0x10000000 | 17) == KILL
    assert [verdict(machine, call, family) for family in (1, 2, 10, 16, 30) for call in sockets] == [ALLOW] * 2 + [
        KILL
    ] * 8
    assert verdict(machine, read, arch=0x40000003) == KILL  # i386


@pytest.mark.parametrize(
    ("machine", "header"), [("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")]
)
def test_filter_numbers_are_the_kernels(machine, header):
    file = Path("/usr/include") / header
    if not file.exists():
        pytest.skip("the kernel's headers are not installed")
    words = [line.split() for line in file.read_text().splitlines() if line.startswith("#define __NR")]
    numbers = {w[1].removeprefix("__NR3264_").removeprefix("__NR_"): w[2] for w in words if len(w) > 2}
    for calls in (_sandbox._KILLED, _sandbox._MISSING, ",".join(_sandbox._BY_ARGUMENT)):
        for call in calls.split(","):
            column = call.split()[1].split("/")
            if machine == "x86_64" or len(column) == 2:
                assert column[list(ARCHES).index(machine)] == numbers[call.split()[0]], call
