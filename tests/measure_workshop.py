"""How a workshop's server bears many visitors.

python -m tests.measure_workshop [--clients 20] [--prompts 10] [--memory 500] [--browsers 4]

Prints JSON: seconds per prompt of clients that ask all at once over real websocket sessions, without pauses, and
whether each got the numbers that its own prompt gives alone; the server's memory after 50 and after `--memory` prompts;
real browsers at once.
"""

import argparse
import contextlib
import json
import os
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from delcore.models import EMBEDDED_NAMES, load_model
from delcore.probe import probe
from tests.screenshots import CHROMIUM, Server, browser, launch, serve, wait_for_picture
from tests.sessions_for_tests import Session

CLOSE = 1e-4
"""Nats between an entropy from the server and the same prompt asked alone."""


def prompts_of(client: int, count: int) -> list[str]:
    """Prompts that no other client has."""
    return [f"{100 + client} + {100 + number} = " for number in range(count)]


def ask(session: Session, prompt: str) -> tuple[float, list[float]]:
    """Seconds to the last element, and the entropies of the eight models on the page."""
    seconds = session.run({"Prompt": prompt}, "Show digits")
    assert not session.exceptions, session.exceptions
    tables = [table for table in session.tables() if {"model", "entropy_nats"} <= set(table)]
    found = tables[0].set_index("model")["entropy_nats"]
    return seconds, [float(found[name]) for name in EMBEDDED_NAMES]


def ask_all(session: Session, prompts: Sequence[str]) -> list[tuple[str, float, list[float]]]:
    return [(prompt, *ask(session, prompt)) for prompt in prompts]


def measure_clients(server: Server, clients: int, count: int) -> dict[str, Any]:
    with contextlib.ExitStack() as open_sessions, ThreadPoolExecutor(clients) as pool:
        sessions = [open_sessions.enter_context(Session(server.url)) for _ in range(clients)]
        for session in sessions:
            session.run()
        spent = processor_seconds(server.pid)
        prompts = [prompts_of(i, count) for i in range(clients)]
        found = [answer for answers in pool.map(ask_all, sessions, prompts) for answer in answers]
    spent = processor_seconds(server.pid) - spent
    seconds = sorted(took for _, took, _ in found)
    return {
        "answers": len(found),
        "mixed answers": count_mixed([(prompt, entropies) for prompt, _, entropies in found]),
        "median (s)": round(statistics.median(seconds), 2),
        "95 % (s)": round(seconds[int(0.95 * len(seconds))], 2),
        "longest (s)": round(seconds[-1], 2),
        "the server's processor time per prompt (s)": round(spent / len(found), 3),
    }


def processor_seconds(pid: int) -> float:
    """Processor time that a process has used, whatever else the machine does."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def count_mixed(found: Sequence[tuple[str, Sequence[float]]]) -> int:
    """Answers that are not what the prompt gives when it is asked alone, in this process."""
    ask_alone = asker()
    mixed = 0
    for prompt, entropies in found:
        alone = ask_alone(prompt)
        mixed += any(abs(alone[name] - one) > CLOSE for name, one in zip(EMBEDDED_NAMES, entropies, strict=True))
    return mixed


def asker() -> Callable[[str], dict[str, float]]:
    """What gives the entropies, in nats, of the token after a prompt under each model, in this process."""
    models = {name: load_model(f"embedded:{name}") for name in EMBEDDED_NAMES}

    def ask_alone(prompt: str) -> dict[str, float]:
        found = probe(prompt, models)["positions"][-1]["models"]
        return {name: found[name]["entropy_nats"] for name in EMBEDDED_NAMES}

    return ask_alone


# ---------------------------------------------------------------- memory


def measure_memory(server: Server, prompts: int) -> dict[str, Any]:
    """Resident megabytes of the server after 50 prompts and after all of them, from one session."""
    sizes = {}
    with Session(server.url) as session:
        session.run()
        for number in range(1, prompts + 1):
            ask(session, f"{number} * {number + 7} = ")
            if number in (50, prompts):
                sizes[number] = resident_megabytes(server.pid)
    return {f"after {number} prompts (MB)": round(size, 1) for number, size in sizes.items()} | {
        "growth": round(sizes[prompts] / sizes[50] - 1, 4)
    }


def resident_megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


# ---------------------------------------------------------------- browsers


def measure_browsers(server: Server, chromium: Any, browsers: int, count: int = 5) -> dict[str, Any]:
    """Chromium processes of their own, which all ask before any is waited for; `chromium` is any running one."""
    wrong: list[str] = []
    ask_alone = asker()
    prompts = [prompts_of(500 + number, count) for number in range(browsers)]
    with contextlib.ExitStack() as open_browsers:
        pages = [open_page(chromium, server.url, wrong, open_browsers) for _ in range(browsers)]
        for asked in zip(*prompts, strict=True):
            for page, prompt in zip(pages, asked, strict=True):
                page.get_by_role("textbox", name="Prompt").fill(prompt)
                page.get_by_role("button", name="Show digits").click()
            for page, prompt in zip(pages, asked, strict=True):
                wait_for_answer(page, prompt, ask_alone(prompt), wrong)
    return {"browsers": browsers, "prompts each": count, "wrong": wrong}


def open_page(chromium: Any, url: str, wrong: list[str], open_browsers: contextlib.ExitStack) -> Any:
    """The dashboard in a browser of its own; what goes wrong in it is added to `wrong`."""
    running = launch(chromium.browser_type)
    open_browsers.callback(running.close)
    page = running.new_page(viewport={"width": 1280, "height": 800})
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(url)
    wait_for_picture(page)
    return page


def wait_for_answer(page: Any, prompt: str, alone: Mapping[str, float], wrong: list[str]) -> None:
    """Until the page shows this prompt's digits and the entropies that it has alone; others, or none, are wrong."""
    digits = [c for c in prompt if c.isdigit()]
    expected = [f"{alone[name]:.2f}" for name in EMBEDDED_NAMES if name != "base"]
    shown: Any = None
    for _ in range(100):
        strip = page.locator(".st-key-strip button").all_inner_texts()
        panels = page.locator(".js-plotly-plot:visible .annotation-text").all_text_contents()
        entropies = [found[1] for text in panels if (found := re.search(r"([\d.]+) nats", text))]
        shown = [text for text in strip if text.isdigit()], entropies
        if shown == (digits, expected):
            return
        page.wait_for_timeout(200)
    wrong.append(f"asked {prompt!r} and was shown {shown}, not {(digits, expected)}")


def measure(arguments: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    with serve(workshop=True) as server:
        name = f"{arguments.clients} clients at once, {arguments.prompts} prompts each"
        yield name, measure_clients(server, arguments.clients, arguments.prompts)
        if arguments.browsers and CHROMIUM.exists():
            with browser() as chromium:
                yield "real browsers at once", measure_browsers(server, chromium, arguments.browsers)
        yield "log", {"lines with a prompt": sum(" + 10" in line for line in server.log.read_text().splitlines())}
    if arguments.memory:
        with serve(workshop=True) as server:
            yield "memory of the server", measure_memory(server, arguments.memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=10)
    parser.add_argument("--browsers", type=int, default=4)
    parser.add_argument("--memory", type=int, default=500, help="prompts of the memory measurement; 0 for none")
    found = dict(measure(parser.parse_args()))
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
