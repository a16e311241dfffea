"""Run the notebooks from top to bottom, and store their outputs.

    python -m tests.run_notebooks --fast                    # do they still work? nothing is written
    python -m tests.run_notebooks --store 01_quickstart     # full mode; outputs go into the file, figures as PNG

Storing needs Chromium for the figures. A notebook that fails, a cell that takes too long or a missing kernel is one
line that names it, and exit code 1.
"""

import argparse
import ast
import base64
import hashlib
import io
import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode, v4
from PIL import Image

from delcore.fingerprints import fingerprint_file
from delcore.studies.stored import studies_folder

FOLDER = Path(__file__).parent.parent / "notebooks"
CELL_SECONDS = 600
MOST_BYTES = 1_500_000
STORED_TYPES = {"text/plain", "text/html", "image/png"}
WATCH = """import sys as _sys
_opened = set()
_sys.addaudithook(lambda event, found: event == "open" and isinstance(found[0], str) and _opened.add(found[0]))
"""
"""Run before a notebook: what it opens, whoever opens it, becomes known."""
TELL = "print(__import__('json').dumps(sorted(_opened)))"

logger = logging.getLogger("run_notebooks")


class NotebookError(Exception):
    """A notebook that does not run, or may not be stored; the message names it."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run_notebooks", description=__doc__.split("\n")[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--fast", action="store_true", help="DELCORE_FAST=1: short runs; nothing is stored")
    mode.add_argument("--store", action="store_true", help="write the outputs into the notebooks")
    parser.add_argument("--cell-seconds", type=float, default=CELL_SECONDS, help="time limit of each cell")
    parser.add_argument("names", nargs="*", metavar="NAME", help="such as 01_quickstart; all notebooks by default")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("traitlets").setLevel(logging.ERROR)  # each failure is reported once, by name
    try:
        for path in find_notebooks(arguments.names):
            started = time.perf_counter()
            notebook = execute(path, fast=arguments.fast, static=arguments.store, cell_seconds=arguments.cell_seconds)
            if arguments.store:
                store(notebook, path)
            logger.info("%s: %.0f s", path.name, time.perf_counter() - started)
    except NotebookError as error:
        logger.error("%s", error)
        return 1
    return 0


def find_notebooks(names: Sequence[str] = (), folder: Path = FOLDER) -> list[Path]:
    """The named notebooks, or all of them in reading order."""
    found = {path.stem: path for path in sorted(folder.rglob("*.ipynb")) if ".ipynb_checkpoints" not in path.parts}
    wanted = [Path(name).name.removesuffix(".ipynb") for name in names] or list(found)
    for name in wanted:
        if name not in found:
            raise NotebookError(f"There is no notebook {name!r}; there are {', '.join(found)}.")
    return [found[name] for name in wanted]


# ---------------------------------------------------------------- running


def execute(path: Path, *, fast: bool, static: bool = False, cell_seconds: float = CELL_SECONDS) -> NotebookNode:
    """Run every cell in a fresh kernel, beside the file; the first error is fatal and names notebook and cell."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=cell_seconds,
        kernel_name=check_kernel(path.name, notebook),
        resources={"metadata": {"path": str(path.parent)}},
        shutdown_kernel="immediate",
        extra_arguments=["--log-level=ERROR"],
    )
    # JSON figures: without this, each one would carry a copy of plotly's JavaScript through the kernel.
    switches = {"DELCORE_FAST": "1" if fast else "", "DELCORE_STATIC": "1" if static else ""}
    environment = os.environ | {"PLOTLY_RENDERER": "plotly_mimetype", "HF_HUB_DISABLE_PROGRESS_BARS": "1"} | switches
    cells = list(notebook.cells)
    watch, tell = v4.new_code_cell(WATCH), v4.new_code_cell(TELL)
    notebook.cells += [watch, tell]  # behind the others, whose numbers stay
    with client.setup_kernel(env=environment):
        client.execute_cell(watch, len(cells))
        for index, cell in enumerate(cells):
            _execute_cell(client, cell, index, path.name)
        client.execute_cell(tell, len(cells) + 1)
    notebook.cells = cells
    notebook.metadata["delcore"] = {"data_sha256": _fingerprint_data(json.loads(tell.outputs[0].text))}
    return notebook


def _fingerprint_data(opened: Sequence[str]) -> dict[str, str]:
    """Of the opened files, those of the stored studies: their place there to their SHA-256."""
    folder = studies_folder().resolve()
    files = {Path(name).resolve() for name in opened if folder.name in name}
    inside = sorted(file for file in files if file.is_relative_to(folder) and file.is_file())
    return {file.relative_to(folder).as_posix(): fingerprint_file(file) for file in inside}


def check_kernel(name: str, notebook: NotebookNode) -> str:
    """The kernel that a notebook asks for; asked before anything starts, since a missing one could hang the run."""
    kernel = notebook.metadata.get("kernelspec", {}).get("name", "python3")
    present = sorted(KernelSpecManager().find_kernel_specs())
    if kernel not in present:
        raise NotebookError(
            f"{name}: the Jupyter kernel {kernel!r} is not installed here (there are: {', '.join(present) or 'none'}). "
            'Set "kernelspec" in the notebook to python3, '
            f"or run `python -m ipykernel install --user --name {kernel}`."
        )
    return kernel


def _execute_cell(client: NotebookClient, cell: NotebookNode, index: int, name: str) -> None:
    where = f"{name}, cell {index + 1} ({cell.get('id', 'no id')})"
    first_line = cell.source.strip().split("\n")[0]
    try:
        client.execute_cell(cell, index)
    except CellTimeoutError:
        raise NotebookError(f"{where}: not done after {client.timeout:g} s: {first_line}") from None
    except CellExecutionError as error:
        raise NotebookError(f"{where}: {error.ename}: {' '.join(error.evalue.split())}") from None
    except DeadKernelError:
        raise NotebookError(
            f"{where}: the kernel died in this cell, perhaps for lack of memory: {first_line}"
        ) from None


# ---------------------------------------------------------------- storing


def store(notebook: NotebookNode, path: Path) -> None:
    """Write a run's outputs into the notebook, without anything that changes from run to run or shows nowhere."""
    data = notebook.metadata.get("delcore", {}).get("data_sha256", {})
    strip(notebook)
    describe_figures(notebook)
    notebook.metadata["delcore"] = {"outputs_of": fingerprint(notebook)} | ({"data_sha256": data} if data else {})
    problems = [*stored_problems(notebook)]
    text = nbformat.writes(notebook) + "\n"
    if len(text.encode()) > MOST_BYTES:
        problems.append(f"it has {len(text.encode()):,} bytes, and {MOST_BYTES:,} are allowed")
    if problems:
        raise NotebookError(f"{path.name} is not stored: {'; '.join(problems)}.")
    path.write_text(text, encoding="utf-8")


def strip(notebook: NotebookNode) -> None:
    """Remove counts, times, widgets and the machine's own names."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = NotebookNode(kernelspec=kernel, language_info={"name": "python"})
    for cell in notebook.cells:
        cell.metadata = NotebookNode({key: value for key, value in cell.metadata.items() if key == "tags"})
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [output for output in cell.outputs if _strip_output(output)]


def _strip_output(output: NotebookNode) -> bool:
    """Strip one output in place; False if nothing of it is left."""
    if "data" not in output:
        return True
    if "execution_count" in output:
        output.execution_count = None
    output.metadata = NotebookNode()
    output.data.pop("application/vnd.jupyter.widget-view+json", None)
    if "image/png" in output.data:
        output.data = NotebookNode({"image/png": _on_white(output.data["image/png"])})
    return bool(output.data)


def _on_white(png: str) -> str:
    """The figures are transparent for the dashboard's themes; a stored one must read on a dark page too."""
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    flat = io.BytesIO()
    Image.alpha_composite(white, image).convert("RGB").quantize(128).save(flat, "PNG", optimize=True)
    return base64.b64encode(flat.getvalue()).decode()


def describe_figures(notebook: NotebookNode) -> None:
    """Give each picture its caption, the prose right below it, as alternative text."""
    for cell, below in figure_cells(notebook):
        caption = re.sub(r"[*_`$]", "", " ".join(below.split()))
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                output.metadata["image/png"] = {"alt": caption}


def figure_cells(notebook: NotebookNode) -> Iterator[tuple[NotebookNode, str]]:
    """Each code cell with a stored picture, and the text of the cell below it."""
    for i, cell in enumerate(notebook.cells):
        if cell.cell_type == "code" and any("image/png" in output.get("data", {}) for output in cell.outputs):
            below = notebook.cells[i + 1] if i + 1 < len(notebook.cells) else None
            yield cell, below.source if below is not None and below.cell_type == "markdown" else ""


def fingerprint(notebook: NotebookNode) -> str:
    """Changes when the code does, but not with its comments or line breaks."""
    trees = [ast.dump(ast.parse(cell.source)) for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()[:16]


def changed_data(notebook: NotebookNode) -> list[str]:
    """Files of the studies that are no longer what the stored outputs were made of."""
    folder, made_of = studies_folder(), notebook.metadata.get("delcore", {}).get("data_sha256", {})
    return [
        name
        for name, digest in made_of.items()
        if not (folder / name).is_file() or fingerprint_file(folder / name) != digest
    ]


def stored_problems(notebook: NotebookNode) -> Iterator[str]:
    """What keeps a notebook from reading well where nothing runs, such as on a code-hosting page."""
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        yield f"it is no valid notebook ({error.message})"
    if "widgets" in notebook.metadata:
        yield "its metadata holds widgets"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            yield from (f"cell {cell.id} {problem}" for problem in _cell_problems(cell))
    yield from (
        f"cell {cell.id} has a figure, but no caption (**Figure …) in the cell below"
        for cell, below in figure_cells(notebook)
        if not below.startswith("**Figure")
    )


def _cell_problems(cell: NotebookNode) -> Iterator[str]:
    if cell.execution_count is not None:
        yield "has an execution count"
    if re.search(r"\b(plot_\w+|px\.\w+)\(", cell.source) and not any(
        "image/png" in output.get("data", {}) for output in cell.outputs
    ):
        yield "draws a figure, but stores no picture of it"
    for output in cell.outputs:
        if output.output_type == "error" or output.get("name") == "stderr":
            yield f"shows {'an error' if output.output_type == 'error' else 'a warning'}"
        if other := set(output.get("data", {})) - STORED_TYPES:
            yield f"stores {', '.join(sorted(other))}"
        shown = str(output.get("text", "")) + str(output.get("data", {}).get("text/html", ""))
        if "<script" in shown or re.search(r" at 0x[0-9a-f]{6}", shown + str(output.get("data", {}))):
            yield "stores a script or an object's address"


if __name__ == "__main__":
    sys.exit(main())
