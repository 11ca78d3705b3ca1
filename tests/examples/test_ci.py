"""The workflow files of the examples: their script steps run as a CI would run them, through a pass and a regression.

The lines that install are left out: mlbench is installed here, and is the baseline's product too. What only the CI's
own server can do (checkout, cache, artefacts) is done by this test: each job has a fresh folder with the results of the
jobs before.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

yaml = pytest.importorskip("yaml")

FOLDER = Path(__file__).parents[2] / "examples" / "ci"
GITHUB, GITLAB = (yaml.safe_load((FOLDER / name).read_text()) for name in ("github.yml", "gitlab.yml"))
INSTALL = 'python -m pip install "mlbench-inference[cpu,report] @ $MLBENCH" "$PRODUCT"'
KEEP = (
    'python -m venv --clear "$BASELINE_ENV"',
    '"$BASELINE_ENV/bin/python" -m pip install -c versions.txt "mlbench-inference[cpu] @ $MLBENCH" "$PRODUCT"',
)


def options(service_ms):
    """Ask for runs of seconds on a backend that takes so long for a sample."""
    return f"--backend null --scenario Offline --repeat 2 --no-accuracy --set backend.service_ms={service_ms}"


def without_installing(script):
    """Return a script whose baseline's product is that of this environment, and which asks it for three runs."""
    environment, product = KEEP
    script = script.replace('--confirm "$BASELINE_ENV/bin/mlbench"', '--confirm "$BASELINE_ENV/bin/mlbench" --pairs 3')
    link = 'mkdir -p "$BASELINE_ENV/bin"; ln -s "$(command -v mlbench)" "$BASELINE_ENV/bin/mlbench"'
    return script.replace(product, link).replace(environment, ":")


class Checkout:
    """A folder as a CI makes it for a job: without what other jobs left, but for what its cache holds."""

    def __init__(self, place, cache):
        self.place, self.cache = place, cache
        place.mkdir()
        if cache.exists():
            shutil.copytree(cache, place / "results")
        self.failed = []

    def run(self, script, variables, *, shell=("bash", "--noprofile", "--norc", "-eo", "pipefail")):
        folder = Path(sys.executable).parent
        known = {name: os.environ[name] for name in ("HOME", "MLBENCH_CACHE") if name in os.environ}
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "OMP_WAIT_POLICY": "PASSIVE", **known, **variables}
        done = subprocess.run(
            [*shell, "-c", script], cwd=self.place, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def keep_results(self):
        shutil.rmtree(self.cache, ignore_errors=True)
        shutil.copytree(self.place / "results", self.cache)


def github_job(checkout, number, chosen):
    """Run the job as GitHub does: a step after a failed one runs only if it is asked for always."""
    expressions = {"github.sha": "a1b2c3", "github.run_id": f"{number}", "github.run_attempt": "1"}
    expressions["github.ref == 'refs/heads/main'"] = "true"
    variables = {
        name: re.sub(r"\$\{\{ (.+?) \}\}", lambda found: expressions[found[1]], str(value))
        for name, value in {**GITHUB["env"], **chosen}.items()
    }
    variables |= {"GITHUB_REPOSITORY": "acme/npu", "GITHUB_STEP_SUMMARY": str(checkout.place / "step-summary.md")}
    status, printed = 0, ""
    for step in GITHUB["jobs"]["measure"]["steps"]:
        if "run" not in step or step["run"] == INSTALL:
            continue
        if not status or "always()" in step.get("if", ""):
            code, text = checkout.run(without_installing(step["run"]), variables)
            status, printed = status or code, printed + text
    return status, printed


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Return a function that runs a job of a project in a fresh checkout, and keeps its results."""
    root = tmp_path_factory.mktemp("ci")

    def job(number, service_ms):
        checkout = Checkout(root / f"job-{number}", root / "cache")
        chosen = {"WORKLOADS": "3d-unet", "OPTIONS": options(service_ms), "BASELINE_ENV": str(root / "kept")}
        status, printed = github_job(checkout, number, chosen)
        checkout.keep_results()
        return status, printed, checkout.place, checkout.place / "site"

    return job


def cases(junit):
    """Return the failed cases of a JUnit file, and how many there are in all."""
    every = ElementTree.parse(junit).getroot().findall(".//testcase")
    return [case.get("name") for case in every if case.find("failure") is not None], len(every)


@pytest.mark.thorough("examples")
def test_a_workflow_makes_a_baseline_then_passes_and_fails_where_the_product_got_slower(job):
    """GitHub's; the lines of GitLab's are the same ones, as a test below says."""
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    status, printed, place, site = job(1, 20)
    assert status == 0, printed
    assert (place / "results" / ".baselines" / "main.json").is_file()
    assert not (place / "junit.xml").exists()
    assert (site / "index.html").is_file()

    status, printed, place, site = job(2, 20)
    assert status == 0, printed
    failed, count = cases(place / "junit.xml")
    assert (failed, count >= 1) == ([], True)
    assert "<h1>acme/npu</h1>" in (site / "index.html").read_text()

    status, printed, place, site = job(3, 100)
    assert status == 1, printed
    failed, _ = cases(place / "junit.xml")
    assert "throughput" in failed, failed  # and perhaps the time to warm up, which grows with it
    summary = (place / "summary.md").read_text()
    assert "throughput: measured again, interleaved, 3 runs of each side: slower, still slower." in summary
    assert (place / "step-summary.md").read_text() == summary
    page = (site / "workloads" / "3d-unet.html").read_text()
    assert "backend.service_ms=20" in page and "backend.service_ms=100" in page


@pytest.mark.parametrize(
    ("status", "summary", "wanted"),
    [(0, "no speed could be judged", 3), (0, "| throughput | same |", 0), (1, "no speed could be judged", 1)],
)
def test_for_gitlab_a_comparison_that_saw_nothing_is_a_warning(tmp_path, status, summary, wanted):
    _, begin, end = GITLAB["performance"]["script"][2].rpartition('if [ "$status" = 0 ]')
    checkout = Checkout(tmp_path / "job", tmp_path / "none")
    (checkout.place / "summary.md").write_text(summary)
    assert checkout.run(f"status={status}\n{begin}{end}", {}) == (wanted, "")


@pytest.mark.thorough("examples", but=["0.5"])
@pytest.mark.parametrize("busy", [0.0, 0.5])
def test_a_baseline_made_beside_other_work_is_a_warning(a_run, tmp_path, busy):
    for provider, step in (
        (
            "github",
            next(step["run"] for step in GITHUB["jobs"]["measure"]["steps"] if "saved.txt" in step.get("run", "")),
        ),
        ("gitlab", next(line for line in GITLAB["performance"]["script"] if "saved.txt" in line)),
    ):
        checkout = Checkout(tmp_path / provider, tmp_path / "none")
        record = a_run(tag="first", other_work={"processes": busy, "stolen": 0.0})
        (checkout.place / "results" / record.run_id).mkdir(parents=True)
        (checkout.place / "results" / record.run_id / "record.json").write_text(record.text())
        status, printed = checkout.run(step, {"TAG": "first", "IS_MAIN": "false", "MLBENCH_RESULTS": "results"})
        assert "main: 1 runs" in printed
        assert ("::warning::1 of 1 runs" in printed) == (provider == "github" and busy > 0)
        assert status == (3 if provider == "gitlab" and busy else 0), printed


@pytest.mark.thorough("examples")
def test_the_step_that_installs_finds_mlbench_where_the_variable_says(tmp_path):
    """Pip is asked what it would install of this checkout; the rest of the line is the product."""
    dry = INSTALL.removesuffix(' "$PRODUCT"') + " --dry-run --no-deps --no-build-isolation --disable-pip-version-check"
    checkout = Checkout(tmp_path / "job", tmp_path / "none")
    status, printed = checkout.run(dry, {"MLBENCH": FOLDER.parents[1].as_uri()})
    assert (status, "Would install mlbench-inference-" in printed) == (0, True), printed


def test_each_file_says_where_mlbench_comes_from():
    assert GITHUB["env"]["MLBENCH"] == GITLAB["performance"]["variables"]["MLBENCH"]


def test_both_files_measure_and_compare_alike():
    steps = {step["name"]: step["run"] for step in GITHUB["jobs"]["measure"]["steps"] if "run" in step}
    job = GITLAB["performance"]
    assert [steps["Install"]] == job["before_script"] == [INSTALL]
    assert steps["Measure"] == job["script"][0]
    saved, _, _ = job["script"][1].rpartition("exit 3")
    assert saved and steps["Make the first baseline, and keep its product"].startswith(saved.rstrip())
    assert all(line in saved for line in KEEP)
    compared, _, _ = job["script"][2].rpartition('if [ "$status" = 0 ]')
    assert compared and steps["Compare with the baseline"].startswith(compared)
    assert {name: GITHUB["env"][name] for name in ("WORKLOADS", "OPTIONS")} == {
        name: job["variables"][name] for name in ("WORKLOADS", "OPTIONS")
    }
    assert job["allow_failure"] == {"exit_codes": [3]}


def test_what_steps_upload_and_cache_is_what_they_write():
    steps = GITHUB["jobs"]["measure"]["steps"]
    uses = {step["uses"].partition("@")[0]: step.get("with", {}) for step in steps if "uses" in step}
    results = GITHUB["env"]["MLBENCH_RESULTS"]
    assert uses["actions/cache/restore"]["path"] == uses["actions/cache/save"]["path"] == results
    assert uses["actions/cache/restore"]["key"] == uses["actions/cache/save"]["key"]
    assert uses["actions/cache/restore"]["key"].startswith(uses["actions/cache/restore"]["restore-keys"])
    assert uses["actions/upload-artifact"]["path"].split() == ["junit.xml", "summary.md", "site"]
    job = GITLAB["performance"]
    assert job["cache"]["paths"] == [f"{job['variables']['MLBENCH_RESULTS']}/"]
    assert job["artifacts"]["paths"] == ["public", "summary.md"]
    assert job["artifacts"]["reports"] == {"junit": "junit.xml"}
    assert GITLAB["pages"]["needs"] == ["performance"]


@pytest.mark.thorough("examples")
@pytest.mark.parametrize("workflow", [GITHUB["env"], GITLAB["performance"]["variables"]], ids=["github", "gitlab"])
def test_the_step_that_installs_takes_a_package_where_plugin_new_wrote_it(tmp_path, workflow):
    """In a folder of the repository, whose top is no package."""
    checkout = Checkout(tmp_path / "job", tmp_path / "none")
    status, printed = checkout.run("mlbench plugin new acme", {})
    assert status == 0, printed
    dry = INSTALL.replace('"mlbench-inference[cpu,report] @ $MLBENCH" ', "--dry-run --no-deps --no-build-isolation ")
    status, printed = checkout.run(dry, {**workflow, "PRODUCT": "./mlbench_acme"})
    assert (status, "Would install mlbench-acme-" in printed) == (0, True), printed
    status, printed = checkout.run(dry, workflow)
    assert status != 0, "the top of this repository is no package"


def test_the_action_does_what_the_workflow_does():
    action = yaml.safe_load((FOLDER.parents[1] / "action.yml").read_text())
    set_first, *steps = action["runs"]["steps"]
    mine = {step["name"]: step["run"].rstrip("\n") for step in steps if "run" in step}
    theirs = {step["name"]: step["run"].rstrip("\n") for step in GITHUB["jobs"]["measure"]["steps"] if "run" in step}
    assert mine == theirs
    assert {step["shell"] for step in steps if "run" in step} == {"bash"}
    names = set(re.findall(r"^(\w+)=", set_first["env"]["INPUTS"], flags=re.MULTILINE))
    assert names == GITHUB["env"].keys()
    inputs = set(re.findall(r"inputs\.([\w-]+)", (FOLDER.parents[1] / "action.yml").read_text()))
    assert inputs == action["inputs"].keys()


def test_the_action_hands_inputs_over_as_text_and_no_shell_reads_them(tmp_path):
    first = yaml.safe_load((FOLDER.parents[1] / "action.yml").read_text())["runs"]["steps"][0]
    assert "inputs." not in first["run"]
    place = Checkout(tmp_path / "job", tmp_path / "none")
    given = {"INPUTS": "OPTIONS=--tag $(touch hacked)\n", "GITHUB_ENV": str(tmp_path / "environment")}
    assert place.run(first["run"], given) == (0, "")
    assert (tmp_path / "environment").read_text() == given["INPUTS"]
    assert list(place.place.iterdir()) == []
