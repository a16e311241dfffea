"""Times that the README quotes, measured side by side on this machine.

python -m tests.measure [--rounds 5]

Prints JSON: importing the package and `--help`; the dashboard's script from a new prompt to all distributions, and
after a slider of the loss lab has moved; from starting the server to its first picture in Chromium, beside a bare
Streamlit page with the same figure.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.screenshots import APP, CHROMIUM, browser, serve, wait_for_picture

BARE_PAGE = """
import streamlit as st
from delcore import plots
from delcore.analysis import known_law
import json, pathlib, delcore
record = json.loads((pathlib.Path(delcore.__file__).parent / "embedded" / "opening.json").read_text())
models = record["positions"][-1]["models"]
tuned = {name: model["probabilities"] for name, model in models.items()}
base = tuned.pop("base")
truth = known_law(record["prompt"]).probabilities
st.plotly_chart(plots.plot_small_multiples(tuned, ghost=base, truth=truth))
"""


def seconds(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def median(values: list[float]) -> float:
    return round(statistics.median(values), 3)


def time_command(arguments: list[str], rounds: int) -> float:
    command = [sys.executable, *arguments]
    return median([seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(rounds)])


@contextlib.contextmanager
def script_seconds() -> Iterator[list[float]]:
    """What each run of a page's script takes, without what AppTest does around it."""
    from streamlit.runtime.scriptrunner.script_runner import ScriptRunner

    found: list[float] = []
    whole = ScriptRunner._run_script
    ScriptRunner._run_script = lambda self, data: found.append(seconds(lambda: whole(self, data)))
    try:
        yield found
    finally:
        ScriptRunner._run_script = whole


def time_prompts(count: int = 40) -> dict[str, float]:
    """The Explore page's script, from a prompt it has not seen to its last element."""
    from streamlit.testing.v1 import AppTest

    page = AppTest.from_file(str(APP), default_timeout=120).run()

    def ask(prompt: str) -> None:
        page.text_input(key="prompt_box").set_value(prompt)
        page.button(key="FormSubmitter:ask-Show digits").click().run()

    with script_seconds() as found:
        ask("1 + 1 = ")  # imports torch and loads the eight models
        for i in range(count):
            ask(f"{10 + i} + {90 - i} = ")
    assert not page.exception and len(found) == count + 1
    first, *found = found
    found.sort()
    return {"first": round(first, 3), "median": median(found), "95 %": round(found[int(0.95 * count)], 3)}


def time_slider(count: int = 40) -> dict[str, float]:
    """The Loss lab's script after its slider DIST2Loss: α has moved to a value it has not had."""
    from streamlit.config import set_option
    from streamlit.testing.v1 import AppTest

    page = AppTest.from_file(str(APP), default_timeout=120)
    page.switch_page("views/loss_lab.py").run()

    set_option("runner.magicEnabled", False)  # as `delcore dashboard` serves it
    page.slider(key="dist2_alpha").set_value(1.99).run()  # the first one imports what only a changed figure needs
    with script_seconds() as found:
        for i in range(count):
            page.slider(key="dist2_alpha").set_value(0.2 + 0.04 * i).run()
    assert not page.exception and len(found) == count
    found.sort()
    return {"median": median(found), "95 %": round(found[int(0.95 * count)], 3)}


def time_first_picture(app: Path, chromium: Any) -> tuple[float, float]:
    """From the start of a server to its answer, and to the first picture in a new page."""
    started = time.perf_counter()
    with serve(app) as server:
        healthy = time.perf_counter() - started
        page = chromium.new_page(viewport={"width": 1280, "height": 800})
        page.goto(server.url)
        page.locator(".js-plotly-plot:visible .main-svg").first.wait_for(timeout=60_000)
        picture = time.perf_counter() - started
        wait_for_picture(page)
        page.close()
    return healthy, picture


def compare_first_pictures(rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        bare = Path(folder) / "bare.py"
        bare.write_text(BARE_PAGE)
        time_first_picture(bare, chromium)  # warms the file cache
        pairs = [(time_first_picture(APP, chromium), time_first_picture(bare, chromium)) for _ in range(rounds)]
    ratios = sorted(mine[1] / theirs[1] for mine, theirs in pairs)
    return {
        "dashboard healthy": median([mine[0] for mine, _ in pairs]),
        "dashboard first picture": median([mine[1] for mine, _ in pairs]),
        "bare page first picture": median([theirs[1] for _, theirs in pairs]),
        "ratio": [median(ratios), round(ratios[0], 3), round(ratios[-1], 3)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    found: dict[str, Any] = {
        "python -c pass (s)": time_command(["-c", "pass"], rounds),
        "import delcore (s)": time_command(["-c", "import delcore"], rounds),
        "delcore --help (s)": time_command(["-m", "delcore", "--help"], rounds),
        "new prompt to all distributions (s)": time_prompts(),
        "a slider of the loss lab (s)": time_slider(),
    }
    if CHROMIUM.exists():
        found["start to picture (s)"] = compare_first_pictures(rounds)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
