"""A user who may not read or write what a command needs: one line that says what, or a record skipped and counted.

Where the tests run as root, another user runs these commands.
"""

import json
import sys
from dataclasses import dataclass

import pytest

from mlbench.records.store.baselines import save_baseline

DRIVER = """
import json, os, sys
from click.testing import CliRunner
from mlbench.cli import main

ended = []
for place, arguments, variables in json.load(open(sys.argv[1])):
    os.chdir(place)
    done = CliRunner().invoke(main, arguments, env=variables)
    if not isinstance(done.exception, SystemExit) and done.exception:
        done.stderr_bytes += repr(done.exception).encode()
    ended.append([done.exit_code, done.stdout, done.stderr])
print(json.dumps(ended))
"""

GOOD = ("20260101", "20260103")
BAD = "20260102"
PRICES = 'currency = "USD"\n[per_hour]\nsmall = 36\n'
SUITE = 'name = "nightly"\n[[runs]]\nworkload = "bert"\nbackend = "null"\nscenario = "Offline"\n'


@dataclass(frozen=True)
class Case:
    """A command in a folder where something is not allowed."""

    arguments: list[str]
    closed: dict[str, int]
    """The modes of files and folders, by their paths in the case's folder."""
    words: str
    code: int = 2


NO_WRITING, NO_READING, NO_ENTERING, NOTHING = 0o500, 0o300, 0o600, 0

CASES = {
    "a run, into a results folder that cannot be written": Case(
        ["run", "resnet50", "--backend", "null", "--scenario", "Offline"],
        {"results": NO_WRITING},
        "results folder cannot be written: results: Permission denied.",
    ),
    "a run, into a results folder that cannot be made": Case(
        ["run", "resnet50", "--backend", "null", "--scenario", "Offline", "--results", "empty/results"],
        {"empty": NO_WRITING},
        "results folder cannot be written: empty/results: Permission denied.",
    ),
    "a run, into a results folder that cannot be entered": Case(
        ["run", "resnet50", "--backend", "null", "--scenario", "Offline"],
        {"results": NO_ENTERING},
        "results folder cannot be written: results: Permission denied.",
    ),
    "a suite, into a results folder that cannot be read": Case(
        ["run", "--suite", "suite.toml"],
        {"results": NO_READING},
        "Path 'results' is not readable.",
    ),
    "a results folder that cannot be read": Case(["table"], {"results": NO_READING}, "Path 'results' is not readable."),
    "records of a folder that cannot be entered": Case(
        ["table"], {"results": NO_ENTERING}, "no run in results can be read: 3 runs found:"
    ),
    "a query to a folder that cannot be entered": Case(
        ["query", "SELECT * FROM runs"], {"results": NO_ENTERING}, "no run in results can be read: 3 runs found:"
    ),
    "a query to a folder whose parent cannot be entered": Case(
        ["query", "SELECT * FROM runs", "--results", "empty/results"], {"empty": NO_ENTERING}, "Permission denied"
    ),
    "a run that cannot be read": Case(["show", BAD], {f"results/{BAD}/record.json": NOTHING}, "Permission denied."),
    "a run whose folder cannot be entered": Case(["show", BAD], {f"results/{BAD}": NOTHING}, "Permission denied."),
    "a comparison with a run that cannot be read": Case(
        ["compare", GOOD[0], BAD], {f"results/{BAD}/record.json": NOTHING}, "Permission denied."
    ),
    "verifying a run whose logs cannot be entered": Case(
        ["verify", GOOD[0]], {f"results/{GOOD[0]}/performance": NOTHING}, "Permission denied."
    ),
    "a baseline that cannot be read": Case(
        ["baseline", "show", "good"], {"results/.baselines/good.json": NOTHING}, "Permission denied."
    ),
    "baselines that cannot be entered": Case(
        ["baseline", "show", "good"], {"results/.baselines": NOTHING}, "Permission denied."
    ),
    "a list of baselines that cannot be read": Case(
        ["baseline", "list"], {"results/.baselines": NOTHING}, "Permission denied."
    ),
    "a baseline that cannot be removed": Case(
        ["baseline", "remove", "good"], {"results/.baselines": NO_WRITING}, "Permission denied."
    ),
    "a baseline that cannot be stored": Case(
        ["baseline", "save", "new", GOOD[0]], {"results/.baselines": NO_WRITING}, "Permission denied."
    ),
    "regressions against a baseline that cannot be read": Case(
        ["regress", "--baseline", "good", GOOD[0]], {"results/.baselines/good.json": NOTHING}, "Permission denied."
    ),
    "a settings file that cannot be read": Case(
        ["settings", "bert", "null"], {"config/settings.toml": NOTHING}, "config/settings.toml: Permission denied."
    ),
    "a settings file in a folder that cannot be entered": Case(
        ["settings", "bert", "null"], {"config": NOTHING}, "config/settings.tuned.toml: Permission denied."
    ),
    "a suite that cannot be read": Case(
        ["run", "--suite", "suite.toml"], {"suite.toml": NOTHING}, "Path 'suite.toml' is not readable."
    ),
    "prices that cannot be read": Case(
        ["cost", f"small={GOOD[0]}", "--price", "prices.toml"], {"prices.toml": NOTHING}, "Path 'prices.toml' is not"
    ),
    "a submission that cannot be read": Case(["import", "empty"], {"empty": NOTHING}, "Path 'empty' is not readable."),
    "a tree to check that cannot be read": Case(
        ["submit", "check", "empty"], {"empty": NOTHING}, "Path 'empty' is not readable."
    ),
    "a submission in a folder that cannot be entered": Case(
        ["import", "empty/here"], {"empty": NOTHING}, "Permission denied."
    ),
    "an export into a folder that cannot be written": Case(
        ["export", "empty/runs.csv"], {"empty": NO_WRITING}, "empty/runs.csv: Permission denied."
    ),
    "a report into a folder that cannot be written": Case(
        ["report", "-o", "empty/report.html"], {"empty": NO_WRITING}, "empty/report.html: Permission denied."
    ),
    "a new plugin in a folder that cannot be written": Case(
        ["plugin", "new", "fast", "--into", "empty"], {"empty": NO_WRITING}, "Permission denied"
    ),
    "a new plugin in a folder that cannot be entered": Case(
        ["plugin", "new", "fast", "--into", "empty/here"], {"empty": NOTHING}, "'empty/here' does not exist."
    ),
    "a check whose log cannot be written": Case(["check", "null"], {"cache": NO_WRITING}, "Set MLBENCH_CACHE."),
    "ceilings that cannot be kept": Case(["roofline"], {"cache": NO_WRITING}, "Set MLBENCH_CACHE."),
    "workloads whose graphs cannot be kept": Case(
        ["run", "dlrm-v2", "--backend", "null", "--scenario", "Offline"], {"cache": NO_WRITING}, "Set MLBENCH_CACHE."
    ),
    "diagnosis without a settings folder": Case(["doctor"], {"config": NOTHING}, "", 0),
    "a table with a run that cannot be read": Case(["table"], {f"results/{BAD}/record.json": NOTHING}, "1 run skip", 0),
    "a history with a run that cannot be read": Case(
        ["history"], {f"results/{BAD}/record.json": NOTHING}, "1 run skipped", 0
    ),
    "a query with a run that cannot be read": Case(
        ["query", "SELECT * FROM runs"], {f"results/{BAD}/record.json": NOTHING}, "1 run skipped", 0
    ),
    "a query without a cache": Case(["query", "SELECT * FROM runs"], {"cache": NOTHING}, "", 0),
    "an export with a run that cannot be read": Case(
        ["export", "runs.csv"], {f"results/{BAD}/record.json": NOTHING}, "1 run skipped", 0
    ),
    "a report with a run that cannot be read": Case(
        ["report", "--markdown"], {f"results/{BAD}/record.json": NOTHING}, "1 run skipped", 0
    ),
    "a table with a run whose folder cannot be entered": Case(["table"], {f"results/{BAD}": NOTHING}, "1 run skip", 0),
}


def fill(folder, a_run):
    """Make all that a command may want to read."""
    records = [a_run(run_id=name) for name in (*GOOD, BAD)]
    for record in records:
        (folder / "results" / record.run_id / "performance").mkdir(parents=True)
        (folder / "results" / record.run_id / "record.json").write_text(record.text())
    save_baseline(folder / "results", "good", records)
    for name in ("config", "cache", "empty"):
        (folder / name).mkdir()
    (folder / "config" / "settings.toml").write_text("[[settings]]\nload.target_qps = 5\n")
    (folder / "prices.toml").write_text(PRICES)
    (folder / "suite.toml").write_text(SUITE)


@pytest.fixture(scope="module")
def ended(open_folder, a_run, run_as_user):
    """Return how each case ended: its exit status, output and error output, by name."""
    own = open_folder / "own"
    commands = []
    for number, case in enumerate(CASES.values()):
        place = own / str(number)
        place.mkdir(parents=True)
        fill(place, a_run)
        for path, mode in case.closed.items():
            (place / path).chmod(mode)
        variables = {"MLBENCH_SETTINGS": str(place / "config" / "settings.toml"), "MLBENCH_CACHE": str(place / "cache")}
        commands.append([str(place), case.arguments, variables])
    (own / "commands.json").write_text(json.dumps(commands))
    done = run_as_user([sys.executable, "-c", DRIVER, str(own / "commands.json")], own)
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_a_user_may_not_read_or_write_is_said_in_one_line(ended, name):
    case = CASES[name]
    code, output, errors = ended[name]
    assert (code, case.words in errors) == (case.code, True), output + errors
    assert len(errors.splitlines()) == (1 if case.words else 0), errors
    if case.code == 0 and BAD not in case.words:
        assert case.words == "" or BAD in errors
