"""What decides whether a graph that was traced before may be used again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import mlbench
from mlbench.contracts.workload import Profile, Variant, Weights

CODE = """
import functools, sys
from mlbench.toolkit import ModuleGraph, tracing_versions

module = __import__(sys.argv[1], fromlist=["build"])
build = functools.partial(module.build, None)
graph = ModuleGraph("graph", inputs=(), outputs=(), build=build, fingerprint="", code=sys.argv[2].split())
print(tracing_versions(graph, *sys.argv[3].split()))
"""

BUILD = "def build(nothing): ..."


def versions_with(folder, of, *, code="", modules=""):
    """Return what a process says of a graph that a module's function builds, with the packages of a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))}
    command = [sys.executable, "-c", CODE, of, code, modules]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment)
    return done.stdout


def test_a_checkout_whose_code_changed_within_a_version_traces_anew(tmp_path):
    copy = shutil.copytree(Path(mlbench.__file__).parent, tmp_path / "mlbench")
    (tmp_path / "acme.py").write_text(BUILD)
    before = versions_with(tmp_path, "acme")
    changed = copy / "toolkit" / "language" / "decoder_modules.py"
    text = changed.read_text()
    changed.write_text(text + "\n# another line\n")
    assert versions_with(tmp_path, "acme") != before
    changed.write_text(text)
    (copy / "reports" / "page.py").write_text("")
    assert versions_with(tmp_path, "acme") == before, "of other code of mlbench no graph depends"


def test_the_code_of_the_workload_whose_graph_it_is_counts_and_that_of_others_does_not(tmp_path):
    for package in ("acme", "other"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        (tmp_path / package / "graphs.py").write_text(BUILD)
    (tmp_path / "acme" / "layers.py").touch()
    before = versions_with(tmp_path, "acme.graphs")
    (tmp_path / "other" / "graphs.py").write_text(f"{BUILD}  # changed")
    assert versions_with(tmp_path, "acme.graphs") == before
    (tmp_path / "acme" / ".#layers.py").symlink_to("an editor's lock")
    assert versions_with(tmp_path, "acme.graphs") == before
    (tmp_path / "acme" / "layers.py").write_text("WIDTH = 3")
    assert versions_with(tmp_path, "acme.graphs") != before


def test_a_module_alone_and_others_that_are_named_count(tmp_path):
    for name in ("acme", "layers", "compiler"):
        (tmp_path / f"{name}.py").write_text(BUILD)
    asked = {"of": "acme", "code": "layers", "modules": "compiler"}
    seen = {versions_with(tmp_path, **asked)}
    for count, name in enumerate(("acme", "layers", "compiler"), 2):
        (tmp_path / f"{name}.py").write_text(f"{BUILD}  # changed")
        seen.add(versions_with(tmp_path, **asked))
        assert len(seen) == count, name


def test_each_built_in_graph_names_the_package_that_has_code_of_its_network(plugins):
    """Of GPT-J and Llama none has: they are as transformers has them, and their configuration is fingerprinted."""
    named = set()
    for name, workload in plugins.workloads.items():
        variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
        package = type(workload).__module__.partition(".")[0]
        codes = (graph.code for graph in workload.model(variant).graphs.values())
        if all(any(module.startswith(package) for module in each) for each in codes):
            named.add(name)
    assert plugins.workloads.keys() - named == {"gptj", "llama2-70b", "llama3.1-8b", "llama3.1-8b-edge"}
