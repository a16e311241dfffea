"""The import direction of the package, and what importing it may load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import delcore

ROOT = Path(delcore.__file__).parent

# Each module may import from its own level's left neighbours only, and losses never import each other.
LEVELS = [
    {"errors", "versions", "_panels", "_lazy"},
    {"_sandbox"},
    {"digits", "arithmetic", "checkpoints", "programs", "answers", "intervals", "workshop"},
    {"spans", "losses", "data", "orders", "fingerprints", "digit_tokens", "templates", "_hub", "_mixtures"},
    {"generation"},
    {"equilibria", "bench", "trainers", "sources", "loss_model", "readout", "pretrained"},
    {"_gguf"},
    {"adapters"},
    {"config", "models"},
    {"run_logs", "recipes", "adapt", "stopping"},
    {"runs"},
    {"memory"},
    {"prepare"},
    {"saving"},
    {"train", "evaluate", "probe"},
    {"sweep", "bench_train"},
    {"analysis", "_card"},
    {"plots"},
    {"benchmarks"},
    {"reports"},
    {"bench_generate", "studies"},
    {"exercises", "family"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, level in enumerate(LEVELS) for name in level}
# The only homes of these libraries, at module level or inside a function.
HOMES = {"plotly": {"plots"}, "sklearn": {"analysis"}, "streamlit": {"cli"}}
LOSS_FILES = {"mle", "mixce", "emo", "ntl", "dist2", "digit_entropy"}


def module_files() -> list[Path]:
    return sorted(file for file in ROOT.rglob("*.py") if "_dashboard" not in file.parts)


def imported_modules(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def home_of(file: Path) -> str:
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", module_files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_module_imports_only_from_levels_before_it(file):
    here = home_of(file)
    if here == "__init__":
        return
    assert here in RANK, f"{file.name} has no place in LEVELS"
    inside = [name.removeprefix("delcore.") for name in imported_modules(file) if name.startswith("delcore.")]
    for name in inside:  # a public name, imported from the package itself, counts as its home
        other = delcore._HOMES.get(name, name).split(".")[0]
        if other in RANK and other != here:
            assert RANK[other] < RANK[here], f"{here} imports {other}"


@pytest.mark.parametrize("library", HOMES)
def test_library_is_imported_only_in_its_home(library):
    users = {
        home_of(file) for file in module_files() if any(n.split(".")[0] == library for n in imported_modules(file))
    }
    assert users <= HOMES[library]


def test_losses_never_import_each_other():
    for name in LOSS_FILES:
        imports = imported_modules(ROOT / "losses" / f"{name}.py")
        assert not {f"delcore.losses.{other}" for other in LOSS_FILES - {name}} & imports, name


def test_import_of_delcore_loads_nothing_heavy():
    heavy = "torch transformers streamlit plotly sklearn numpy".split()
    code = f"import sys, delcore, delcore.cli; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_name_resolves():
    for name in delcore.__all__:
        assert getattr(delcore, name) is not None


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = delcore.no_such_name
