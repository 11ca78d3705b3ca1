"""``mlbench bisect``: commits of real repositories, run by a command that stores records of the speed a commit says.

`tests/examples/test_bisect.py` has commits of a plugin whose runs are measured.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from invoking import invoke, refusal

from mlbench.errors import UsageError
from mlbench.records.run_record import RunRecord, read
from mlbench.running.bisection import FOLDER
from mlbench.running.installations import commits_between
from mlbench.running.kept_runs import RUNS

OTHER_MLBENCH = """
import json, pathlib, random, sys, uuid
from datetime import UTC, datetime
template, folder, _, workload, *rest = sys.argv[1:]
speed = pathlib.Path(folder, "speed").read_text().strip()
if speed == "broken":
    sys.exit("Error: the backend cannot be imported.")
results = pathlib.Path(rest[rest.index("--results") + 1])
results.mkdir(parents=True, exist_ok=True)
number = len(list(results.iterdir()))
record = json.loads(pathlib.Path(template).read_text())
record |= {"run_id": f"{number:03d}-{uuid.uuid4().hex}", "created": datetime.now(UTC).isoformat(), "duration_ns": 1000}
record["tag"] = rest[rest.index("--tag") + 1]
noise = random.Random(number).gauss(0, NOISE)
record["result"]["value"] = float(speed) * (1 + noise)
memory = pathlib.Path(folder, "memory")
record["engine"]["sweep_samples_per_s"] = {}
record["peak_memory_bytes"] = int(float(memory.read_text()) * (1 + noise)) if memory.exists() else None
if "--no-accuracy" in rest:
    record["accuracy"] = None
else:
    name = record["accuracy"]["targets"][0]["score"]
    record["accuracy"]["scores"][name] = float(pathlib.Path(folder, "score").read_text())
(results / record["run_id"]).mkdir()
(results / record["run_id"] / "words.json").write_text(json.dumps(rest))
(results / record["run_id"] / "written.json").write_text(json.dumps(record))
(results / record["run_id"] / "written.json").rename(results / record["run_id"] / "record.json")
"""


@pytest.fixture
def product(repository):
    """Return a function that makes a repository with a commit for each speed, and returns both."""

    def product(speeds, scores=()):
        scores = scores or [99] * len(speeds)
        return repository(
            [{"speed": f"{speed}", "score": f"{score}"} for speed, score in zip(speeds, scores, strict=True)]
        )

    return product


@pytest.fixture
def other_mlbench(a_run, tmp_path):
    """Return a function that returns the command of a commit, whose runs vary by so much."""

    def other_mlbench(noise=0.002):
        script = tmp_path / "other_mlbench.py"
        script.write_text(OTHER_MLBENCH.replace("NOISE", str(noise)))
        (tmp_path / "template.json").write_text(a_run().text())
        return f"{sys.executable} {script} {tmp_path / 'template.json'}"

    return other_mlbench


@pytest.fixture
def words(tmp_path):
    """Return the words of a question, without its versions."""
    return ["bisect", "resnet50", "--backend", "npu", "--scenario", "Offline", "--results", str(tmp_path / "results")]


@pytest.fixture
def bisect(words, other_mlbench):
    """Return a function that bisects a repository."""

    def bisect(folder, good, *more, noise=0.002):
        place = ["--good", good, "--repo", str(folder), "--mlbench", f"{other_mlbench(noise)} {{folder}}"]
        return invoke(*words, *place, *more, "--json")

    return bisect


def status_of(folder):
    words = ["git", "-C", str(folder), "status", "--porcelain", "--branch"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def runs_of(tmp_path):
    return [read(file) for file in sorted((tmp_path / "results" / FOLDER).glob(f"*/{RUNS}/*/record.json"))]


def test_the_commit_of_sixteen_that_made_a_product_slower_is_found(bisect, product, tmp_path):
    folder, commits = product([100] * 11 + [90] * 5)
    before = status_of(folder)
    done = bisect(folder, commits[0])
    found = json.loads(done.stdout)
    assert (done.exit_code, found["suspects"]) == (0, [commits[11]])
    assert found["answer"].startswith(
        f"{commits[11][:12]} (Change number 11) is the first bad version: throughput x 0.9"
    )
    assert [each["place"] for each in found["tried"]] == [0, 7, 9, 10, 11, 15]
    assert status_of(folder) == before
    assert not list((tmp_path / "results" / FOLDER).glob("*/commits/*/"))  # the clones


def test_a_less_accurate_commit_is_found_with_one_run_of_each(bisect, product, tmp_path):
    folder, commits = product([100] * 16, scores=[98] * 5 + [96] * 11)
    done = bisect(folder, commits[0], "--measure", "accuracy")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["suspects"]) == (0, [commits[5]])
    assert {each["runs"] for each in found["tried"]} == {1}
    assert len(runs_of(tmp_path)) == len(found["tried"]) <= 6


@pytest.mark.thorough("command line", but=["accuracy"])
@pytest.mark.parametrize(
    ("more", "settings"),
    [
        ((), []),
        (("--measure", "accuracy"), ["load.min_duration_ms=1", "load.min_query_count=1"]),
        (
            ("--measure", "accuracy", "--set", "load.min_duration_ms=9000"),
            ["load.min_duration_ms=9000", "load.min_query_count=1"],
        ),
    ],
    ids=["speed", "accuracy", "accuracy in long tests"],
)
def test_the_performance_test_is_as_short_as_can_be_where_accuracy_is_asked_for(
    bisect, product, tmp_path, more, settings
):
    folder, commits = product([100, 100])
    bisect(folder, commits[0], *more)
    logs = list((tmp_path / "results" / FOLDER).glob(f"*/{RUNS}/*/words.json"))
    assert len(logs) >= 2
    for log in logs:
        words = json.loads(log.read_text())
        assert [words[place + 1] for place, word in enumerate(words) if word == "--set"] == settings


def test_ends_that_do_not_differ_are_no_step_and_the_loss_that_would_show_is_said(bisect, product):
    folder, commits = product([100, 100, 100, 100])
    done = bisect(folder, commits[0])
    found = json.loads(done.stdout)
    assert (done.exit_code, found["suspects"]) == (1, [])
    assert 0.04 < found["detectable"] < 0.08  # the margin, and the noise of fifths of a percent
    assert "the ends do not differ" in found["answer"]


@pytest.mark.thorough("command line")
def test_ends_of_which_noise_hides_the_difference_cannot_be_told_apart(bisect, product):
    folder, commits = product([100, 100, 94, 94])
    done = bisect(folder, commits[0], noise=0.2)
    assert (done.exit_code, json.loads(done.stdout)["suspects"]) == (1, [])
    assert "the ends cannot be told apart" in done.stdout


def test_a_commit_that_does_not_run_is_skipped_and_its_neighbour_tried(bisect, product):
    folder, commits = product([100, 100, 100, "broken", "broken", 80, 80, 80])
    done = bisect(folder, commits[0])
    found = json.loads(done.stdout)
    assert (done.exit_code, found["suspects"]) == (1, commits[3:6])
    skipped = [each for each in found["tried"] if each["mark"] == "skipped"]
    assert [each["name"] for each in skipped] == commits[3:5]
    assert all("the backend cannot be imported" in each["reason"] for each in skipped)
    assert found["answer"].startswith(f"Cannot tell between {commits[2][:12]} and {commits[5][:12]}; ")


@pytest.mark.thorough("command line")
def test_a_commit_that_cannot_be_installed_is_skipped_and_not_tried_again(bisect, product, tmp_path):
    folder, commits = product([100, 100, 100, 80, 80])
    install = (
        f"echo {{commit}} >> '{tmp_path}/installed'; test {{commit}} != {commits[2]} || {{ echo no wheel; exit 3; }}"
    )
    for _ in range(2):
        done = bisect(folder, commits[0], "--install", install)
        assert (done.exit_code, json.loads(done.stdout)["suspects"]) == (1, commits[2:4])
    assert "--install ended with status 3: no wheel" in done.stdout
    assert (tmp_path / "installed").read_text().split().count(commits[2]) == 1


@pytest.mark.parametrize("place", [0, 3])
def test_an_end_that_does_not_run_is_an_error(bisect, product, place):
    speeds = [100, 100, 80, 80]
    speeds[place] = "broken"
    folder, commits = product(speeds)
    done = bisect(folder, commits[0])
    assert done.exit_code == 2
    assert f"{commits[place]} cannot be measured: " in done.stderr
    assert "Both ends must run." in done.stderr


@pytest.mark.thorough("command line")
def test_what_is_stored_is_not_measured_again(bisect, product, tmp_path):
    folder, commits = product([100] * 4 + [90] * 4)
    first = bisect(folder, commits[0])
    made = runs_of(tmp_path)
    again = bisect(folder, commits[0])
    assert json.loads(again.stdout) == json.loads(first.stdout)
    assert f"{len(made)} runs are stored from an earlier try" in again.stderr
    assert len(runs_of(tmp_path)) == len(made)
    bisect(folder, commits[0], "--set", "backend.threads=2")
    assert len(runs_of(tmp_path)) > len(made)  # another question


def test_after_a_kill_it_goes_on_where_it_was(product, words, other_mlbench, tmp_path):
    folder, commits = product([100] * 3 + [90] * 5)
    words += ["--repo", str(folder), "--good", commits[0], "--mlbench", f"{other_mlbench()} {{folder}}"]
    command = [sys.executable, "-m", "mlbench", *words]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        until = time.monotonic() + 60
        while len(runs_of(tmp_path)) < 3 and time.monotonic() < until:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    before = {run.run_id for run in runs_of(tmp_path)}
    done = invoke(*words, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["suspects"] == [commits[3]]
    after = runs_of(tmp_path)
    assert before <= {run.run_id for run in after}
    tried = json.loads(done.stdout)["tried"]
    assert sum(each["runs"] for each in tried) == len(after)


@pytest.mark.thorough("command line")
def test_installations_are_bisected_as_they_are(words, other_mlbench, tmp_path):
    for number, speed in enumerate([100, 100, 100, 70, 70]):
        (tmp_path / f"v{number}").mkdir()
        (tmp_path / f"v{number}" / "speed").write_text(str(speed))
    commands = [f"{other_mlbench()} {tmp_path / f'v{number}'}" for number in range(5)]
    done = invoke(*words, *(word for each in commands for word in ("--mlbench", each)))
    assert done.exit_code == 0, done.output
    assert f"{commands[3]} is the first bad version" in " ".join(done.stdout.split())
    assert all((tmp_path / f"v{number}" / "speed").exists() for number in range(5))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--good", "nowhere"], "there is no commit 'nowhere'"),
        (["--good", "-x"], "there is no commit '-x'"),
        (["--good", "HEAD"], "HEAD and HEAD are the same commit."),
        (["--good", "HEAD", "--bad", "HEAD~1"], "HEAD~1 does not come from HEAD."),
        (["--good", "HEAD~1", "--mlbench", "true"], "--mlbench is given more than once."),
        (["--bad", "HEAD"], "--bad is given without --good."),
        ([], "one installation has no versions."),
        (["--good", "HEAD~1", "--repo", "/"], "not a git repository"),
    ],
)
def test_a_wrong_question_gets_one_line(product, monkeypatch, words, told):
    folder, _ = product([100, 90])
    monkeypatch.chdir(folder)
    asked = ["bisect", "bert", "--backend", "npu", "--scenario", "Offline", "--mlbench", "true", *words]
    assert told in refusal(invoke(*asked))


def test_a_measure_that_runs_lack_is_refused_with_those_that_they_have(bisect, product):
    folder, commits = product([100, 90])
    done = bisect(folder, commits[0], "--measure", "beauty")
    assert done.exit_code == 2
    assert "it has no 'beauty'; it may have: throughput, " in done.stderr


def test_two_commands_do_not_work_on_one_question(bisect, product, tmp_path):
    folder, commits = product([100, 90])
    bisect(folder, commits[0])
    (place,) = (tmp_path / "results" / FOLDER).iterdir()
    held = os.open(place, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    done = bisect(folder, commits[0])
    os.close(held)
    assert (done.exit_code, "another mlbench bisect works on" in done.stderr) == (2, True)


@pytest.mark.thorough("command line")
def test_a_loss_that_came_in_two_parts_is_not_laid_upon_a_commit_between_them(bisect, product):
    """By the usual rule some of those between are called good and others bad."""
    folder, commits = product([100] * 4 + [93] * 6 + [86] * 6)
    done = bisect(folder, commits[0], noise=0.015)
    assert {commits.index(name) for name in json.loads(done.stdout)["suspects"]} & {4, 10}
    assert "it does not differ from the version before it" in done.stderr


def test_after_a_pause_a_pair_begins_anew(bisect, product, tmp_path):
    folder, commits = product([100, 90])
    bisect(folder, commits[0])
    first, *others = sorted((tmp_path / "results" / FOLDER).glob(f"*/{RUNS}/*"))
    for run in others:
        shutil.rmtree(run)
    record = read(first)
    earlier = record.model_copy(update={"created": record.created - timedelta(hours=1)})
    (first / "record.json").write_text(earlier.text())
    tried = json.loads(bisect(folder, commits[0]).stdout)["tried"]
    assert [each["runs"] for each in tried] == [4, 3]  # the run before the pause has no partner


@pytest.mark.thorough("command line")
def test_a_commit_that_lacks_one_number_is_not_skipped_by_another(bisect, product, tmp_path):
    """The same runs answer both questions; those of the middle commit have no energy."""
    folder, commits = product([100, 100, 90])
    bisect(folder, commits[0])
    energy = {"joules": 40.0, "seconds": 2.0, "source": "RAPL", "covers": "package-0", "joules_per_sample": 2.0}
    for run in sorted((tmp_path / "results" / FOLDER).glob(f"*/{RUNS}/*")):
        record = read(run)
        if record.tag != "bisect-1":
            changed = energy | {"joules_per_sample": 3.0 if record.tag == "bisect-2" else 2.0}
            (run / "record.json").write_text(
                type(record).model_validate(record.model_dump() | {"energy": changed}).text()
            )
    found = json.loads(bisect(folder, commits[0], "--measure", "energy").stdout)
    assert [each["mark"] for each in found["tried"]] == ["good", "skipped", "bad"]
    assert "it has no 'energy'" in found["tried"][1]["reason"]
    assert json.loads(bisect(folder, commits[0]).stdout)["suspects"] == commits[2:]


@pytest.mark.thorough("command line")
def test_the_subject_of_a_commit_keeps_no_force_over_a_terminal(product, bisect):
    folder, commits = product([100, 100, 90])
    who = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(folder), "commit", "--quiet", "--amend"]
    subprocess.run([*who, "-m", "\x1b[2J\x07 cleared"], check=True)
    done = bisect(folder, commits[0])
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "cleared) is the first bad version" in done.stdout


def test_of_a_merge_the_side_that_it_was_made_on_is_searched(product):
    folder, commits = product([100, 90, 80])

    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *who, "-C", str(folder), *words], check=True, capture_output=True)

    git("checkout", "--quiet", "-b", "side", commits[1])
    git("commit", "--quiet", "--allow-empty", "-m", "Beside")
    git("checkout", "--quiet", "-")
    git("checkout", "--quiet", "-B", "trunk", commits[2])
    git("merge", "--quiet", "--no-ff", "-m", "Merge", "side")
    found = commits_between(folder, commits[0], "trunk")
    assert [each.subject for each in found] == ["Change number 0", "Change number 1", "Change number 2", "Merge"]
    with pytest.raises(UsageError, match="trunk does not come from side"):
        commits_between(folder, "side", "trunk")
    (folder / "below").mkdir()
    assert commits_between(folder / "below", commits[0], "trunk") == found


@pytest.mark.thorough("command line")
def test_a_run_that_does_not_count_is_made_once_more(bisect, product, tmp_path):
    folder, commits = product([100, 100, 90])
    bisect(folder, commits[0])
    middle = [run for run in (tmp_path / "results" / FOLDER).glob(f"*/{RUNS}/*") if read(run).tag == "bisect-1"]
    for run in middle[1:]:
        shutil.rmtree(run)
    verdict = read(middle[0]).verdict.model_dump()
    verdict["rules"][0] |= {"passed": False, "required": True}
    invalid = RunRecord.model_validate(read(middle[0]).model_dump() | {"verdict": verdict})
    (middle[0] / "record.json").write_text(invalid.text())
    found = json.loads(bisect(folder, commits[0]).stdout)
    assert [(each["mark"], each["runs"]) for each in found["tried"]][1:] == [("good", 3), ("bad", 3)]


@pytest.mark.thorough("command line")
def test_the_commit_that_takes_more_memory_is_found(repository, bisect):
    commits = [{"speed": "100", "memory": f"{size}"} for size in (2e9, 2e9, 2e9, 2.6e9, 2.6e9)]
    folder, names = repository(commits)
    done = bisect(folder, names[0], "--measure", "memory")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["suspects"], found["measure"]) == (0, [names[3]], "peak memory")
    assert next(each["ratio"] for each in found["tried"] if each["place"] == 3) == pytest.approx(1.3, abs=0.02)
    assert ", worse; " in found["answer"]
