"""Pictures of the running dashboard: wide in light and dark, narrow, and with an error.

python -m tests.screenshots OUT_DIR [--app dashboard/streamlit_app.py]
"""

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
APP = ROOT / "dashboard" / "streamlit_app.py"
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@dataclass(frozen=True)
class Server:
    """A dashboard that answers at `url` and writes its log to a file."""

    url: str
    log: Path
    pid: int


@contextlib.contextmanager
def serve(app: Path = APP, *, workshop: bool = False) -> Iterator[Server]:
    """Start the dashboard on a free port, and stop it at the end; a workshop's as its command does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        command = [sys.executable, "-m", "streamlit", "run", str(app), "--server.headless=true"]
        command += ["--server.address=127.0.0.1", f"--server.port={port}", "--server.fileWatcherType=none"]
        if workshop:
            command = [sys.executable, "-m", "delcore", "dashboard", "--workshop"]
            command += ["--host", "127.0.0.1", "--port", str(port)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}
        with log.open("w") as out:
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT)
            try:
                _wait_until_healthy(f"http://127.0.0.1:{port}", process, log)
                yield Server(f"http://127.0.0.1:{port}", log, process.pid)
            finally:
                process.terminate()
                process.wait(timeout=60)


def _wait_until_healthy(url: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 240  # a workshop's loads its models first, on a busy machine
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(f"The dashboard did not start:\n{log.read_text()}")


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium through Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = launch(playwright.chromium)
        try:
            yield chromium
        finally:
            chromium.close()


def launch(kind: Any) -> Any:
    """A Chromium process of its own; `kind` is Playwright's `chromium`, or the `browser_type` of a running one."""
    return kind.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)


def wait_for_picture(page: Any) -> None:
    """Until a Plotly figure is visible and the script has run to its end."""
    page.locator(".js-plotly-plot:visible .main-svg").first.wait_for(timeout=60_000)
    wait_until_idle(page)


def wait_until_idle(page: Any) -> None:
    """Until the script has run to its end."""
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for(timeout=60_000)
    page.wait_for_timeout(400)  # the last elements are painted after the script has ended


PAGES = {
    "explore": "/",
    "numbers": "/?tab=Numbers",
    "loss_lab": "/loss_lab",
    "loss_lab_prediction": "/loss_lab?tab=At+this+prediction",
    "loss_lab_steps": "/loss_lab?tab=Gradient+steps",
    "loss_lab_level": "/loss_lab?tab=DEL%27s+level",
    "embeddings": "/embeddings",
    "tsne": "/embeddings?map=t-SNE",
    "claims": "/results",
    "training": "/results?section=Training+runs",
    "benchmarks": "/results?section=Benchmarks",
}


def take(chromium: Any, url: str, out: Path) -> None:
    """All pictures of all pages."""
    for name, width, scheme in (("light", 1280, "light"), ("dark", 1280, "dark"), ("narrow", 400, "light")):
        page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        for title, path in PAGES.items():
            page.goto(url + path)
            if title == "claims":
                open_claim(page, 6)
            wait_for_picture(page)
            page.screenshot(path=out / f"{title}_{name}.png")
            _grow(page, width)
            page.screenshot(path=out / f"{title}_{name}_whole.png")
            page.set_viewport_size({"width": width, "height": 800})
        page.close()
    _take_views(chromium, url, out)


def open_claim(page: Any, number: int) -> None:
    """Open a row of the ledger, which draws its figure."""
    page.locator("[data-testid=stExpander] summary").nth(number - 1).click(timeout=60_000)
    wait_until_idle(page)


def _grow(page: Any, width: int) -> None:
    """Make the window as high as the page, which scrolls inside its main block."""
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": width, "height": max(height, 800)})
    page.wait_for_timeout(600)


def _take_views(chromium: Any, url: str, out: Path) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
    page.goto(url)
    wait_for_picture(page)
    for view in ("Overlay", "Change"):
        page.get_by_role("radio", name=view).or_(page.get_by_role("button", name=view)).first.click()
        page.wait_for_timeout(800)
        wait_for_picture(page)
        page.screenshot(path=out / f"explore_{view.split()[0].lower()}.png")
    for name, prompt in (("sum", "12 + 35 = "), ("html", "<img src=x onerror=alert(1)> 12"), ("error", "   ")):
        page.get_by_role("textbox", name="Prompt").fill(prompt)
        page.get_by_role("button", name="Show digits").click()
        page.wait_for_timeout(800)
        wait_until_idle(page)
        page.screenshot(path=out / f"explore_{name}.png")
    page.close()


def main() -> None:
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("--app", type=Path, default=APP, help="main script (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with serve(arguments.app) as server, browser() as chromium:
        take(chromium, server.url, arguments.out)


if __name__ == "__main__":
    main()
