"""Workloads whose own rules want a second only, so that runs of tier valid can be audited in a test.

What takes real runs is made once for all processes of the tests, and never changed: tests change copies.
"""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from invoking import invoke

PLUGIN = """
from mlbench import Rules, Target, Tokens, hookimpl
from mlbench_llama2_70b.workload import Llama2
from mlbench_resnet50.workload import ResNet50


class Brief(ResNet50):
    __module__ = ResNet50.__module__  # beside which the profiles are
    name = "brief"
    title = "ResNet-50 by rules that ask for a second"
    rules = Rules(
        scenarios=("SingleStream", "Offline"),
        targets=(
            Target.at_least("acc", 0.5, reference=76.46, name="99"),
            Target.at_least("acc", 0.6, reference=76.46, name="99.9", required=False),
        ),
        min_duration_ms=1000,
        min_query_count={"SingleStream": 64},
    )


class BriefChat(Llama2):
    __module__ = Llama2.__module__
    name = "brief-chat"
    title = "Llama 2 by rules that ask for a second"
    tuning = None
    rules = Rules(
        scenarios=("Server",),
        targets=(Target.at_least("ROUGE1", 0.99, reference=44.4312, name="99"),),
        min_duration_ms=1000,
        min_query_count={"Server": 459},
        tokens=Tokens.MEASURED,
        ttft_ms=2000,
        tpot_ms=200,
    )


@hookimpl
def mlbench_workloads():
    return [Brief(), BriefChat()]
"""

AT_A_PACE = ("--scenario", "SingleStream", "--set", "backend.delay_ms=2")
"""Some hundred queries a second: an engine that answers at once is sent 200,000, which take long to log and to read."""
CHAT = ("--scenario", "Server", "--set", "load.target_qps=450", "--set", "backend.tokens=8")


@dataclass(frozen=True)
class Audited:
    """A run, what an audit of it printed as JSON, and its exit status."""

    folder: Path
    status: int
    found: dict
    left: list
    """What the audit left in the folder of temporary files."""

    @property
    def record(self):
        return json.loads((self.folder / "record.json").read_text())

    @property
    def made(self):
        """The verdicts by test."""
        return {each["test"]: each for each in self.found["made"]}


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Return a function that makes something in one of the tests' processes; the others wait, and take it over."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "audits"
    folder.mkdir(exist_ok=True)

    def once(name, make):
        with (folder / f"{name}.json").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if not (text := file.read()):
                text = json.dumps(make(folder))
                file.write(text)
        return json.loads(text)

    return once


@pytest.fixture(scope="session")
def installed(once, cache, tmp_path_factory):
    """Return the variables of an environment in which the workloads are installed, and runs have a folder."""

    def install(folder):
        (folder / "mlbench_brief.py").write_text(PLUGIN)
        info = folder / "mlbench_brief-1.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mlbench-brief\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[mlbench]\nbrief = mlbench_brief\n")
        return str(folder)

    folder = once("installed", install)
    own = {"MLBENCH_RESULTS": f"{folder}/results", "MLBENCH_CACHE": str(cache)}
    return {**own, "PYTHONPATH": folder, "TMPDIR": str(tmp_path_factory.mktemp("temporary"))}


@pytest.fixture(scope="session")
def mlbench(installed):
    """Return a function that runs a command of mlbench where the workloads are installed."""

    def run(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in installed.items():
                patch.setenv(name, value)
            patch.setattr(tempfile, "tempdir", None)  # what was found before
            patch.syspath_prepend(installed["PYTHONPATH"])
            return invoke(*arguments)

    return run


@pytest.fixture(scope="session")
def audit(once, installed, mlbench):
    """Return a function that makes a run on the null backend, and audits it by some tests, once for each workload."""

    def temporary():
        return {path.name for path in Path(installed["TMPDIR"]).rglob("*")}

    def make(workload, options, tests):
        done = mlbench("run", workload, "--backend", "null", "--tier", "valid", *options, "--json")
        (record,) = json.loads(done.stdout)
        named = [word for test in tests for word in ("--test", test)]
        before = temporary()
        done = mlbench("audit", record["run_id"], *named, "--json")
        assert done.exit_code in {0, 1}, done.output
        return [record["run_id"], done.exit_code, json.loads(done.stdout), sorted(temporary() - before)]

    def audit(workload, options, tests):
        run_id, status, found, left = once(workload, lambda folder: make(workload, options, tests))
        return Audited(Path(installed["MLBENCH_RESULTS"], run_id), status, found, left)

    return audit


@pytest.fixture(scope="session")
def audited(audit):
    """Return a run of a classifier, audited by three tests. Zeros are inaccurate labels."""
    return audit("brief", AT_A_PACE, ("TEST01", "TEST04", "TEST05"))


@pytest.fixture(scope="session")
def audited_chat(audit):
    """Return a run of a language model, audited by the test of tokens."""
    return audit("brief-chat", CHAT, ("TEST06",))


@pytest.fixture(scope="session")
def judge_altered(once, mlbench):
    """Return a function that judges altered copies of tests' logs, all by one command, and returns verdicts by name.

    It takes an audited run, and by name of the alteration: the test, the log's name, and a function from the text of
    the log to another one. The digest in the record is that of the altered log, but for names that say it is old.
    """

    def judge(folder, audited, alterations, options):
        run = shutil.copytree(audited.folder, Path(tempfile.mkdtemp(dir=folder)) / audited.folder.name)
        names = {}
        for number, (name, (test, log, change)) in enumerate(alterations.items()):
            source = Path(audited.made[test]["folder"])
            run_id = f"{source.name[:-4]}{number:04x}"
            copy, names[run_id] = run.parent / ".audits" / run.name / run_id, name
            shutil.copytree(source, copy)
            file = copy / "performance" / log
            text = file.read_text()
            file.write_text(change(text))
            assert file.read_text() != text, name
            record = json.loads((copy / "record.json").read_text()) | {"run_id": run_id}
            if "old digest" not in name:
                record["logs"][f"performance/{log}"] = hashlib.sha256(file.read_bytes()).hexdigest()
            (copy / "record.json").write_text(json.dumps(record))
        done = mlbench("audit", run, "--test", next(iter(audited.made)), "--plan", "--json", *options)
        assert done.exit_code == 0, done.output
        return {names[Path(each["folder"]).name]: each for each in json.loads(done.stdout)["earlier"]}

    def judge_once(audited, alterations, *options):
        name = " ".join(("altered", audited.folder.name, *options))
        return once(name, lambda folder: judge(folder, audited, alterations, options))

    return judge_once
