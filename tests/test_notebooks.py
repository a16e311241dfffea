"""The notebooks run, and what is stored of them reads without being run (case B45)."""

import base64
import io
import re
import shutil
import subprocess
import sys
import time

import nbformat
import pytest
from nbformat import v4
from PIL import Image

from tests import run_notebooks
from tests.run_notebooks import (
    MOST_BYTES,
    NotebookError,
    changed_data,
    execute,
    find_notebooks,
    fingerprint,
    stored_problems,
)

pytestmark = pytest.mark.notebooks

PATHS = find_notebooks()
CHAPTERS = [path for path in PATHS if path.parent == run_notebooks.FOLDER]  # the workshop's sheets are no chapters
MOST_LINES = 12
FAST_SECONDS = 120  # a cell of a fast run takes a few seconds; the machine may be busy


@pytest.fixture(scope="module", params=PATHS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def stored(path):
    return nbformat.read(path, as_version=4)


def write_notebook(folder, *sources, kernel="python3", name="sample.ipynb"):
    notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in sources])
    notebook.metadata["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
    nbformat.write(notebook, folder / name)
    return folder / name


# ---------------------------------------------------------------- the project's notebooks


def test_notebook_runs_in_fast_mode(path, tmp_path):
    shutil.copy(path, tmp_path)
    execute(tmp_path / path.name, fast=True, cell_seconds=FAST_SECONDS)
    assert [file.name for file in tmp_path.iterdir()] == [path.name], "it left files behind"


def test_notebook_stores_what_reads_without_running(path, stored):
    assert list(stored_problems(stored)) == []
    assert path.stat().st_size <= MOST_BYTES


def test_notebook_stores_the_outputs_of_its_code_and_data(stored):
    made_of = stored.metadata.get("delcore", {})
    assert made_of.get("outputs_of") == fingerprint(stored), "run `python -m tests.run_notebooks --store` again"
    assert changed_data(stored) == [], "these studies have changed: run `python -m tests.run_notebooks --store` again"
    code = "\n".join(cell.source for cell in stored.cells if cell.cell_type == "code")
    named = {f"{study}/results.json" for study in re.findall(r'read_study\("(\w+)"\)', code)}
    assert named <= made_of.get("data_sha256", {}).keys(), "a study is read, but was not recorded"


def test_notebook_has_prose_in_half_of_its_cells_and_small_cells_of_code(stored):
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert len(code) <= len(stored.cells) / 2
    for cell in code:
        assert cell.source.count("\n") < MOST_LINES, cell.id
        assert not any(line.lstrip().startswith(("def ", "class ")) for line in cell.source.split("\n")), cell.id


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_notebook_asks_predicts_checks_and_names_limits_and_sources(stored):
    headings = [line for cell in stored.cells for line in cell.source.split("\n") if line.startswith("## ")]
    order = ["## Prediction", "## Set-up", "## The finding, checked", "## Limits", "## Sources"]
    assert [heading for heading in headings if heading in order] == order
    assert any(cell.cell_type == "code" and "assert " in cell.source for cell in stored.cells)


# ---------------------------------------------------------------- case B45: runs that do not end


def test_slow_cell_is_stopped_and_names_notebook_and_cell(tmp_path):
    path = write_notebook(tmp_path, "x = 1", "import time\ntime.sleep(999)")
    with pytest.raises(NotebookError, match=r"sample\.ipynb, cell 2 \(.+\): not done after 5 s: import time"):
        execute(path, fast=True, cell_seconds=5)


def test_missing_kernel_fails_within_seconds_and_names_the_remedy(tmp_path):
    path = write_notebook(tmp_path, "x = 1", kernel="conda-env-x-py")
    started = time.perf_counter()
    with pytest.raises(NotebookError, match=r"sample\.ipynb: the Jupyter kernel 'conda-env-x-py' .*ipykernel install"):
        execute(path, fast=True)
    assert time.perf_counter() - started < 30, "waiting for a kernel takes a minute"


def test_error_is_fatal_and_names_notebook_and_cell(tmp_path):
    path = write_notebook(tmp_path, "1 / 0", "open('ran', 'w').close()")
    with pytest.raises(NotebookError, match=r"sample\.ipynb, cell 1 .*ZeroDivisionError: division by zero"):
        execute(path, fast=True)
    assert not (tmp_path / "ran").exists()


def test_dead_kernel_names_notebook_and_cell(tmp_path):
    path = write_notebook(tmp_path, "import os\nos._exit(1)")
    with pytest.raises(NotebookError, match=r"sample\.ipynb, cell 1 .*kernel died"):
        execute(path, fast=True, cell_seconds=60)


def test_switches_reach_the_kernel(tmp_path):
    path = write_notebook(tmp_path, "import os\n[os.environ[k] for k in ('DELCORE_FAST', 'DELCORE_STATIC')]")
    assert execute(path, fast=False, static=True).cells[0].outputs[0].data["text/plain"] == "['', '1']"


def test_stored_notebook_knows_the_studies_it_read_and_that_one_has_changed(tmp_path, monkeypatch):
    path = write_notebook(tmp_path, "from delcore.exercises.judgement import stored_readings\n_ = stored_readings()")
    run_notebooks.store(execute(path, fast=False), path)
    stored = nbformat.read(path, as_version=4)
    assert list(stored.metadata["delcore"]["data_sha256"]) == ["smollm2/results.json"]
    assert changed_data(stored) == []
    shutil.copytree(run_notebooks.studies_folder(), tmp_path / "studies")
    monkeypatch.setattr(run_notebooks, "studies_folder", lambda: tmp_path / "studies")
    with (tmp_path / "studies" / "smollm2" / "results.json").open("a") as file:
        file.write(" ")
    assert changed_data(stored) == ["smollm2/results.json"]


def test_command_exits_with_1_and_one_line(tmp_path, monkeypatch, caplog):
    write_notebook(tmp_path, "time", kernel="conda-env-x-py", name="02_gone.ipynb")
    monkeypatch.setattr(run_notebooks, "find_notebooks", lambda names: [tmp_path / "02_gone.ipynb"])
    assert run_notebooks.main(["--fast"]) == 1
    assert len(caplog.records) == 1
    assert "02_gone.ipynb" in caplog.text


def test_command_names_an_unknown_notebook():
    command = [sys.executable, "-m", "tests.run_notebooks", "--fast", "99_none"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=run_notebooks.FOLDER.parent, timeout=60)
    assert run.returncode == 1
    assert "no notebook '99_none'; there are 01_quickstart" in run.stderr
    assert run.stderr.count("\n") == 1


# ---------------------------------------------------------------- case B45: outputs that do not show


def cell_with(data):
    output = v4.new_output("execute_result", data, execution_count=3)
    return v4.new_code_cell("x", outputs=[output], execution_count=3, metadata={"execution": {"iopub": "10:00"}})


def picture():
    file = io.BytesIO()
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def test_widgets_without_state_counts_and_times_are_stripped(tmp_path):
    widget = {"text/plain": "bar", "application/vnd.jupyter.widget-view+json": {"model_id": "a"}}
    kernel = {"name": "mine", "display_name": "mine"}
    notebook = v4.new_notebook(cells=[cell_with(widget)], metadata={"widgets": {"x": {}}, "kernelspec": kernel})
    assert len(list(stored_problems(notebook))) == 3
    run_notebooks.store(notebook, tmp_path / "a.ipynb")
    text = (tmp_path / "a.ipynb").read_text()
    assert "widget" not in text
    assert '"execution"' not in text
    assert "mine" not in text
    assert list(stored_problems(nbformat.read(tmp_path / "a.ipynb", as_version=4))) == []


def test_invalid_notebook_is_refused(tmp_path):
    notebook = v4.new_notebook(cells=[v4.new_markdown_cell("text")])
    notebook.cells[0].cell_type = "mark-up"
    with pytest.raises(NotebookError, match=r"a\.ipynb is not stored: it is no valid notebook"):
        run_notebooks.store(notebook, tmp_path / "a.ipynb")


def test_picture_is_stored_on_white_with_its_caption_as_alternative_text(tmp_path):
    cells = [cell_with({"image/png": picture()}), v4.new_markdown_cell("**Figure 1.** Ten `bars`.\nOne per digit.")]
    run_notebooks.store(v4.new_notebook(cells=cells), tmp_path / "a.ipynb")
    output = nbformat.read(tmp_path / "a.ipynb", as_version=4).cells[0].outputs[0]
    assert output.metadata["image/png"]["alt"] == "Figure 1. Ten bars. One per digit."
    image = Image.open(io.BytesIO(base64.b64decode(output.data["image/png"]))).convert("RGBA")
    assert image.getpixel((1, 1)) == (255, 255, 255, 255)


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        (cell_with({"application/vnd.plotly.v1+json": {}}), "stores application/vnd.plotly"),
        (cell_with({"text/html": "<script>1</script>"}), "a script"),
        (cell_with({"text/plain": "<object at 0x7f0011223344>"}), "an object's address"),
        (cell_with({"image/png": picture()}), "no caption"),
        (v4.new_code_cell("plot_overlay(x)"), "no picture"),
        (v4.new_code_cell("x", outputs=[v4.new_output("stream", name="stderr", text="careful")]), "a warning"),
        (cell_with({"text/plain": "x" * MOST_BYTES}), "1,500,000 are allowed"),
    ],
)
def test_output_that_does_not_read_is_refused_and_nothing_is_written(tmp_path, cell, problem):
    with pytest.raises(NotebookError, match=rf"a\.ipynb is not stored: .*{problem}"):
        run_notebooks.store(v4.new_notebook(cells=[cell]), tmp_path / "a.ipynb")
    assert not (tmp_path / "a.ipynb").exists()


def test_fingerprint_sees_code_but_not_its_layout():
    one, same, other = (
        fingerprint(v4.new_notebook(cells=[v4.new_code_cell(source)]))
        for source in ("f(1, 2)", "f(1,\n  2)  # x", "f(1)")
    )
    assert one == same
    assert one != other
