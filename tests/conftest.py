"""A record of each kind, and packages installed as their users do."""

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial
from importlib import metadata
from pathlib import Path

import pytest
from invoking import invoke

from mlbench.execution import cores
from mlbench.execution.export.compile_cache import build_once
from mlbench.records.node_record import NodeRecord, ReachedNodeRecord
from mlbench.records.run_record import RunRecord

REPOSITORY = Path(__file__).parents[1]
NOBODY = 65534

AS_USER = f"""
import os, sys
from pathlib import Path
from mlbench.toolkit.sandbox import linux, seccomp
staging, namespaces, *command = sys.argv[1:]

def show(paths):
    "Make folders readable that lie in folders closed to other users: in mounts of this process's own."
    closed = {{}}
    for path in paths:
        if shut := [parent for parent in reversed(path.parents) if not parent.stat().st_mode & 1]:
            closed.setdefault(shut[0], []).append(path)
    for parent, inside in closed.items():
        places = {{path: Path(staging, str(number)) for number, path in enumerate(inside)}}
        for path, place in places.items():
            place.mkdir()
            linux.mount(str(path), str(place), flags=linux.MS_BIND | linux.MS_REC)
        linux.mount("tmpfs", str(parent), "tmpfs", data="mode=755")
        for path, place in places.items():
            path.mkdir(parents=True, exist_ok=True)
            linux.mount(str(place), str(path), flags=linux.MS_BIND | linux.MS_REC)

linux.unshare(linux.CLONE_NEWNS)
linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
show(dict.fromkeys(Path(path).resolve() for path in (sys.base_prefix, sys.prefix, {str(REPOSITORY)!r})))
linux.become({NOBODY})
if namespaces == "without":
    linux.gain_no_privileges()
    linux.filter_calls(seccomp.refusing({{"unshare"}}))
os.execv(command[0], command)
"""


PARTS = {
    "workloads": "each workload on more backends, scenarios, precisions and faults than `tests` tries",
    "official forms": "full profiles, fetched and run in the form in which the official files are published",
    "compilers": "code that a C++ compiler or torch.compile makes anew",
    "exports": "graphs exported anew, and every size of them",
    "recipes": "how the mini models were trained",
    "kit": "the conformance kit on more backends, and on more that are broken or hang",
    "engines": "faults of an engine in more places of a run",
    "network": "nodes in processes of their own",
    "servers": "inference servers that are started",
    "searches": "tune, curve and sweeps under LoadGen",
    "statistics": "what comparisons promise, on more kinds of made-up nights, noise and numbers of runs",
    "attacks": "runs that try to be fast without computing, and programs that try to leave the sandbox",
    "submission": "trees of real runs before all checkers",
    "command line": "commands in processes of their own, killed, or side by side",
    "examples": "packages from outside, CI scripts and the notebook, from top to bottom",
}
"""The parts of `nox -s thorough`: the argument of a `thorough` mark."""

STORED_RUN = Path(__file__).parent / "data/records/resnet50-pytorch-Offline.json"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage meanwhile, nor later look through what tests import: all of it is kept to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def keep_for_tests(item, seen):
    """Take the mark of the thorough session off a case that it leaves to `nox -s tests`.

    These are the cases that it names in ``but``, and the first with each value of the parameter ``first_of``; ``seen``
    has the values of earlier cases.
    """
    mark, case = item.get_closest_marker("thorough"), getattr(item, "callspec", None)
    if not mark or not case:
        return
    is_kept = case.id in mark.kwargs.get("but", ())
    if parameter := mark.kwargs.get("first_of"):
        value = (item.nodeid.partition("[")[0], case.params[parameter])
        is_kept |= value not in seen
        seen.add(value)
    if is_kept:
        item.own_markers.remove(mark)
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    """Begin with the files that have most slow tests: of several processes none is left alone with a long file."""
    seen = set()
    for item in items:
        keep_for_tests(item, seen)
        if mark := item.get_closest_marker("thorough"):
            (part,) = mark.args
            assert part in PARTS, f"{item.nodeid}: {part}"
            item.user_properties.append(("part", part))
            item.add_marker(pytest.mark.slow)
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


def pytest_terminal_summary(terminalreporter):
    """Say in which folders, and in which parts, the time went; tests in several processes take it side by side."""
    by_folder, by_part, tests = Counter(), Counter(), Counter()
    for report in (each for group in terminalreporter.stats.values() for each in group):
        if isinstance(report, pytest.TestReport):
            by_folder[Path(report.nodeid.partition("::")[0]).parent] += report.duration
            if part := dict(report.user_properties).get("part"):
                by_part[part] += report.duration
                tests[part] += report.when == "call"
    terminalreporter.section("slowest folders")
    for folder, seconds in by_folder.most_common(12):
        terminalreporter.write_line(f"{seconds:7.1f} s  {folder}")
    if by_part:
        terminalreporter.section("parts")
    for part, seconds in by_part.most_common():
        terminalreporter.write_line(f"{seconds:7.1f} s  {tests[part]:4} tests  {part}: {PARTS[part]}")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Return a cache folder of the tests' own, one for all processes: each graph is exported once."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLBENCH_CACHE", str(folder / "cache"))
        yield folder / "cache"


@pytest.fixture(scope="session", autouse=True)
def no_terminal():
    """Let tables have the width that they have in a file, whatever runs the tests and on whatever terminal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_authorities():
    """Trust no authority of the machine's: each client process would read all of them as it imports aiohttp."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", os.devnull)
        yield


@pytest.fixture(autouse=True)
def same_variables():
    """Take back variables that a library sets as it is imported (cv2 does): with others, fork servers start anew."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@pytest.fixture
def no_quota(tmp_path, monkeypatch):
    """Let no control group limit the processors: a test says itself which there are."""
    monkeypatch.setattr(cores, "usable_threads", partial(cores.usable_threads, tmp_path / "no-root"))


@pytest.fixture(scope="session")
def environment(a_run):
    """Return the environment of the stored run."""
    return a_run().environment


@pytest.fixture(scope="session")
def a_run():
    """Return a run that was made and stored, ResNet-50 on pytorch in Offline, with changes."""
    stored = STORED_RUN.read_text(encoding="utf-8")

    def record(**changes):
        fields = json.loads(stored)
        if "scenario" in changes:
            del fields["scenario_facts"]  # those of the new one
        return RunRecord.model_validate(fields | changes)

    return record


@pytest.fixture
def a_failure(a_run):
    """Return a run that crashed."""
    failure = {"kind": "crash", "message": "the process was ended by SIGSEGV", "stage": "warm-up", "log_tail": "..."}
    return a_run(status="failed", failure=failure, result=None, accuracy=None, verdict=None, engine={})


@pytest.fixture
def node(environment):
    """Return a node, with changes."""

    def node(**changes):
        fields = {
            "name": "north",
            "mlbench_version": "0.1.0",
            "workload": "resnet50",
            "backend": "onnxruntime",
            "profile": "mini",
            "weights": "trained",
            "precisions": ["fp32", "int8"],
            "versions": {"onnxruntime": "1.24.1"},
            "settings": {"backend.threads": 2},
            "environment": environment,
        }
        return NodeRecord(**fields | changes)

    return node


@pytest.fixture
def reached(node):
    """Return a node that answered ten samples, with changes of what was seen of it."""

    def reached(*, of=None, **changes):
        fields = {
            "address": "10.0.0.1:7100",
            "round_trip_ns": 120_000,
            "node": of or node(),
            "ended": "",
            "samples": 10,
            "elapsed_ns": 2_000_000_000,
            "occupied_ns": 1_500_000_000,
            "in_flight_ns": 9_000_000_000,
        }
        return ReachedNodeRecord(**fields | changes)

    return reached


@pytest.fixture(scope="session")
def one_run(cache):
    """A run of the null backend, made once for all processes; zeros are not the right labels, so it is not accurate."""

    def make(results):
        request = ["run", "resnet50", "--backend", "null", "--scenario", "SingleStream", "--results", str(results)]
        done = invoke(*request)
        assert done.exit_code == 1, done.output

    (folder,) = build_once("one_run", "", make).glob("2*")
    return folder


@pytest.fixture
def one_torch_thread():
    """Compute on one thread of torch's in a test."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def pip_install():
    """Return a function that installs a package from its folder into another, without what it depends on."""
    # not find_spec: setuptools takes a search for pip for pip itself at work, and torch can compile no C++ after that
    missing = [name for name in ("hatchling", "pip") if not any(metadata.distributions(name=name))]
    if missing:
        pytest.skip(f"not installed: {missing}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]

    def install(source: Path, folder: Path) -> None:
        subprocess.run([*pip, "--no-build-isolation", "--target", folder, source], check=True)

    return install


@pytest.fixture(scope="module")
def open_folder():
    """Return a folder that other users may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o711)
        yield Path(path)
        for place, names, _ in os.walk(path):
            for name in names:
                Path(place, name).chmod(0o700)


@pytest.fixture(scope="session")
def run_as_user():
    """Return a function that runs a command as a user without rights, to whom a folder is given with all in it.

    Where the tests do not run as root, that is who runs them.
    """

    def run(command, own, *, namespaces="with", variables=None):
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "TMPDIR": str(own),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
            **(variables or {}),
        }
        whole = command
        if os.geteuid() == 0:
            for place, names, files in os.walk(own):
                for path in (place, *(os.path.join(place, name) for name in names + files)):
                    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
            staging = own.with_name("staging")
            staging.mkdir(exist_ok=True)
            whole = [sys.executable, "-c", AS_USER, str(staging), namespaces, *command]
        done = subprocess.run(whole, capture_output=True, text=True, cwd=REPOSITORY, env=environment, check=False)
        if "unshare: Operation not permitted" in done.stderr:
            pytest.skip("no mounts may be made here")
        return done

    return run


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


@pytest.fixture(scope="module")
def plugins():
    from mlbench.discovery import Plugins

    return Plugins.discover()


@pytest.fixture
def request_of(plugins, tmp_path):
    """Return the request of an Offline run on the null backend, or of another."""

    from mlbench.planning.requests import RunRequest, resolve

    def request_of(**changes):
        common = {"workload": "resnet50", "backend": "null", "scenario": "Offline", "results": tmp_path}
        return resolve(RunRequest(**common | changes), plugins)

    return request_of
