"""The directions of DESIGN, as tests."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from mlbench.contracts.load_pattern import LOAD_PATTERNS

ROOT = Path(__file__).parents[1]
CORE = ROOT / "mlbench"

# what each room may import of the core, besides itself and `ALWAYS`
ROOMS = {
    "contracts": set(),
    "system": set(),
    "wire": set(),
    "execution": set(),
    "records": set(),
    "rules": set(),
    "discovery": {"execution", "rules"},
    "settings": {"discovery"},
    "cluster": {"execution", "records", "rules", "settings"},
    "comparison": {"records"},
    "loadgen": set(),
    "toolkit": {"execution", "rules"},
    "conformance": {"discovery", "execution", "loadgen", "rules", "settings", "toolkit"},
    "fetching": set(),
    "planning": {"cluster", "comparison", "discovery", "execution", "fetching", "records", "rules", "settings"},
    "graph_export": {"execution", "planning", "records", "toolkit"},
    "roofline": {"execution", "records"},
    "measurement": {
        "cluster",
        "discovery",
        "execution",
        "loadgen",
        "records",
        "roofline",
        "rules",
        "settings",
        "toolkit",
    },
    "reports": {"comparison", "records"},
    "running": {
        "comparison",
        "discovery",
        "execution",
        "measurement",
        "planning",
        "records",
        "roofline",
        "rules",
        "settings",
    },
    "scaffold": set(),
    "submission": {"cluster", "discovery", "loadgen", "measurement", "planning", "records", "rules", "settings"},
    "tuner": {"comparison", "discovery", "execution", "planning", "records", "rules", "running", "settings", "toolkit"},
    "cli": {
        "cluster",
        "comparison",
        "conformance",
        "discovery",
        "execution",
        "fetching",
        "graph_export",
        "measurement",
        "planning",
        "records",
        "reports",
        "roofline",
        "rules",
        "running",
        "scaffold",
        "settings",
        "submission",
        "tuner",
    },
    "__main__": {"cli"},
    "api": {"comparison", "discovery", "planning", "records", "rules", "running"},
}
ALWAYS = {"contracts", "errors", "system", "version", "wire"}
SCENARIO_DEFINITIONS = ("contracts/load_pattern.py", "loadgen/scenarios.py", "records/scenario_record.py")
"""What LoadGen's four are, the official scenarios, and what records meant that have a name alone."""
EXEMPT = [
    *(CORE / each for each in (*SCENARIO_DEFINITIONS, "conformance/loadgen_checks.py", "cli/settings.py")),
    ROOT / "plugins/mlbench_endpoint/loads/scenarios.py",
    *(ROOT / "workloads/mlbench_own_model" / each for each in ("workload.py", "language_workload.py")),
]
"""These, a plugin's scenarios, the rules of a user's model, the checks that are about one of the four each, and a
default of the command line."""
HEAVY = ("torch", "onnxruntime", "transformers", "onnx", "cv2", "sklearn", "numpy", "pydantic", "scipy")
PRINTING = {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"}
WORKLOAD_FILES = {
    *("__init__.py", "workload.py", "dataset.py", "graphs.py", "program.py", "accuracy.py"),
    *("mini_profile.py", "full_profile.py"),
}
OWN_MODEL = ROOT / "workloads" / "mlbench_own_model"
"""What it is made of is the user's."""
RECIPES = ROOT / "workloads" / "mlbench_recipes"
"""Not in the wheel; each recipe imports its workload, and no workload a recipe."""


@cache
def imports_of(file):
    """Return (module, is it only for types) for all imports of a file, also those inside functions."""
    found, nodes = [], [*ast.walk(ast.parse(file.read_text()))]
    typed = {
        id(node)
        for block in nodes
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in typed) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: relative import"
            names = [f"mlbench.{each.name}" for each in node.names] if node.module == "mlbench" else [node.module]
            found += [(name, id(node) in typed) for name in names]
    return found


def room_of(module):
    part = module.split(".")[1]
    return part if (CORE / part).is_dir() or (CORE / f"{part}.py").is_file() else None


def core_files():
    return [file for file in CORE.rglob("*.py") if file != CORE / "__init__.py"]


def upward_imports(file):
    """Return the modules that a file imports, and its room may not."""
    room = file.relative_to(CORE).parts[0].removesuffix(".py")
    allowed = {None, room} | ALWAYS | ROOMS.get(room, set())
    own = (module for module, is_typed in imports_of(file) if module.startswith("mlbench.") and not is_typed)
    return [module for module in own if room_of(module) not in allowed]


def test_a_room_imports_only_downwards():
    found = {str(file.relative_to(ROOT)): upward_imports(file) for file in core_files()}
    assert found
    assert {file: modules for file, modules in found.items() if modules} == {}


def test_only_the_loadgen_room_imports_loadgen():
    folders = (CORE, ROOT / "plugins", ROOT / "workloads")
    importers = {
        str(file.relative_to(ROOT))
        for folder in folders
        for file in folder.rglob("*.py")
        if any(module == "mlperf_loadgen" for module, _ in imports_of(file))
    }
    assert importers
    assert all(importer.startswith("mlbench/loadgen/") for importer in importers)


def names_of_scenarios(file):
    """Yield the places of a file where it names one of LoadGen's four scenarios: a text, or their object."""
    for node in ast.walk(ast.parse(file.read_text())):
        is_text = isinstance(node, ast.Constant) and node.value in LOAD_PATTERNS
        name = getattr(node, "attr", getattr(node, "id", ""))
        if is_text or name in {"SINGLE_STREAM", "MULTI_STREAM", "SERVER", "OFFLINE"}:
            yield f"{file.relative_to(ROOT)}:{node.lineno}"


def test_a_scenario_answers_for_itself():
    """Who asks for one of the four by its name has no answer for a plugin's."""
    files = [file for folder in (CORE, ROOT / "plugins", ROOT / "workloads") for file in folder.rglob("*.py")]
    found = {file: list(names_of_scenarios(file)) for file in files}
    assert all(found[CORE / definition] for definition in SCENARIO_DEFINITIONS)
    assert not [place for file, places in found.items() if file not in EXEMPT for place in places]


@pytest.mark.parametrize("folder", ["plugins", "workloads"])
def test_plugins_and_workloads_use_public_names_only(folder):
    for file in (ROOT / folder).rglob("*.py"):
        own = file.relative_to(ROOT / folder).parts[0]
        for module, _ in imports_of(file):
            allowed = (own, "mlbench.toolkit", *([f"mlbench_{file.parent.name}"] if RECIPES in file.parents else []))
            if module.split(".")[0].startswith("mlbench") and not module.startswith(allowed):
                name = module.removeprefix("mlbench.")
                assert name.count(".") == 0 and name in public_names(), f"{file}: imports {module}"


def public_names():
    import mlbench

    return mlbench.__all__


def test_commands_print_through_one_room():
    """What is printed any other way reaches the terminal with whatever control characters it holds."""
    for file in (CORE / "cli").glob("*.py"):
        if file.name != "output.py":
            calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
            printing = [ast.unparse(call) for call in calls if ast.unparse(call) in PRINTING]
            assert not printing, f"{file.name}: {printing}"


def test_every_workload_folder_holds_the_same_files():
    folders = {file.parent for file in (ROOT / "workloads").glob("*/__init__.py")} - {RECIPES, OWN_MODEL}
    assert {folder.name.removeprefix("mlbench_") for folder in folders} == {
        file.parent.name for file in RECIPES.glob("*/recipe.py")
    }
    for folder in folders:
        assert {file.name for file in folder.glob("*.py")} >= WORKLOAD_FILES, folder.name
        assert (folder / "README.md").is_file()


def test_no_file_is_a_drawer_without_a_name():
    names = {file.name for folder in ("mlbench", "plugins", "workloads") for file in (ROOT / folder).rglob("*.py")}
    assert not names & {"utils.py", "common.py", "helpers.py", "misc.py"}


def heavy_modules_after(code, heavy=HEAVY):
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split()) & set(heavy)


@pytest.mark.parametrize(
    "code",
    [
        "import mlbench, mlbench.toolkit",
        "from mlbench.cli import main; main(['--help'])",
        "from mlbench.cli import main; main(['list'])",
    ],
    ids=["import mlbench", "mlbench --help", "mlbench list"],
)
def test_light_commands_import_nothing_heavy(code):
    assert heavy_modules_after(code) == set()


def test_the_list_of_plugins_needs_neither_all_rules_nor_what_only_a_run_needs():
    needless = {
        "mlbench.rules.official",
        "mlbench.contracts.metric",
        "mlbench.contracts.model",
        "mlbench_endpoint.loads.prompts",
    }
    assert heavy_modules_after("from mlbench.cli import main; main(['list'])", needless) == set()


def commands_of(file):
    """Yield the commands in a file that start this Python again, as lists of source texts."""
    text = file.read_text()
    for node in ast.walk(ast.parse(text)) if "sys.executable" in text else ():
        if isinstance(node, ast.List) and node.elts and ast.unparse(node.elts[0]) == "sys.executable":
            yield [ast.unparse(each) for each in node.elts]


def test_no_python_is_started_that_imports_from_the_current_folder():
    folders = (CORE, ROOT / "plugins", ROOT / "workloads")
    found = [command for folder in folders for file in folder.rglob("*.py") for command in commands_of(file)]
    assert found
    assert [command for command in found if command[1] not in {"'-P'", "'-I'"}] == []


@pytest.mark.parametrize("folder", ["mlbench", "plugins", "workloads", "benchmarks"])
def test_no_simple_queue_is_waited_for_with_a_time_limit(folder):
    """Its limit becomes negative, and so none, where it passes while CPython 3.11 is within ``get``."""
    for file in (ROOT / folder).rglob("*.py"):
        code = file.read_text("utf-8")
        assert "SimpleQueue" not in code or ".get(timeout" not in code, file
