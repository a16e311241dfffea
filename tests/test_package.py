"""The built wheel, installed beside nothing but its dependencies, probes and serves the dashboard."""

import email
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import delcore
from delcore.models import EMBEDDED_NAMES
from tests.test_cli import free_port, wait_for_health

ROOT = Path(delcore.__file__).parents[1]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="delcore is not run from a checkout"),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT)]
    try:
        import hatchling  # noqa: F401
    except ImportError:
        pass
    else:
        command.insert(3, "--no-isolation")
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """A virtual environment with the wheel and, by a path file, this environment's packages behind it."""
    folder = tmp_path_factory.mktemp("installed") / "env"
    venv.create(folder, with_pip=False)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True, text=True, timeout=300)
    scheme = {"base": str(folder), "platbase": str(folder)}
    site_packages = Path(sysconfig.get_path("purelib", vars=scheme))
    # A plain path: the path files within it are not read, so the editable checkout stays out.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def outside(folder: Path, **more) -> dict:
    """How a process is started with no trace of the checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {"cwd": folder, "env": environment, "stdin": subprocess.DEVNULL, **more}


def script_of(python: Path) -> str:
    return str(python.with_name("delcore.exe" if os.name == "nt" else "delcore"))


def test_wheel_carries_the_dashboard_and_the_embedded_family(names):
    for name in EMBEDDED_NAMES:
        assert f"delcore/embedded/{name}.safetensors" in names
    assert "delcore/embedded/card.json" in names
    assert "delcore/reports/report.css" in names
    assert "delcore/_dashboard/streamlit_app.py" in names
    pages = [path.name for path in (ROOT / "dashboard" / "views").glob("*.py")]
    assert pages
    assert {f"delcore/_dashboard/views/{page}" for page in pages} <= set(names)


def test_wheel_carries_the_dashboards_settings(names):
    if not (ROOT / "dashboard" / ".streamlit" / "config.toml").is_file():
        pytest.skip("the dashboard has no settings file")
    assert "delcore/_dashboard/.streamlit/config.toml" in names


def test_wheel_carries_every_module_and_nothing_else(names):
    modules = {str(file.relative_to(ROOT)) for file in (ROOT / "delcore").rglob("*.py")}
    assert {name for name in names if name.endswith(".py") and "/_dashboard/" not in name} == modules
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".DS_Store"))]
    tops = {name.split("/")[0] for name in names}
    assert tops == {"delcore", f"delcore-{delcore.__version__}.dist-info"}


def test_wheel_says_its_licence_version_and_command(wheel, names):
    with zipfile.ZipFile(wheel) as archive:
        info = f"delcore-{delcore.__version__}.dist-info"
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        scripts = archive.read(f"{info}/entry_points.txt").decode()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Version"] == delcore.__version__
    assert f"{info}/licenses/LICENSE" in names
    assert "delcore = delcore.cli:main" in scripts
    required = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    found = {re.match(r"[\w-]+", line)[0] for line in required}
    assert {"torch", "transformers", "scikit-learn", "plotly", "streamlit", "jupyterlab", "accelerate"} <= found


def test_installed_package_is_the_wheels(python, tmp_path):
    code = "import delcore; print(delcore.__file__)"
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, **outside(tmp_path))
    assert Path(run.stdout.strip()).is_relative_to(python.parents[1])


def test_installed_package_has_the_runs_that_the_notebooks_read(python, tmp_path):
    code = (
        "from delcore.studies.evidence import read_evidence; from delcore.studies.stored import studies_folder;"
        "found = read_evidence(studies_folder()); print(*sorted(found.runs), len(found.studies))"
    )
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, **outside(tmp_path))
    assert run.stdout.split() == ["ablations", "alpha", "losses", "5"]


def test_installed_command_probes_from_an_unrelated_folder(python, tmp_path):
    command = [script_of(python), "probe", "12 + 35 = ", "--loss", "all", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, **outside(tmp_path))
    assert (run.returncode, run.stderr) == (0, "")
    assert list(json.loads(run.stdout)["positions"][0]["models"]) == list(EMBEDDED_NAMES)
    assert not list(tmp_path.iterdir())


def test_installed_command_serves_the_dashboard_from_an_unrelated_folder(python, tmp_path):
    port, folder = free_port(), tmp_path / "elsewhere"
    folder.mkdir()
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [script_of(python), "dashboard", "--headless", "--port", str(port)],
            stdout=log,
            stderr=subprocess.STDOUT,
            **outside(folder),
        )
    try:
        assert wait_for_health(process, port) == "ok"
    finally:
        process.terminate()
        process.wait(timeout=60)
    assert "Traceback" not in (tmp_path / "log").read_text()
    shutil.rmtree(folder)
