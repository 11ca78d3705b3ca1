"""Jobs as schedulers read them: options by sbatch's rules, commands by bash, a manifest by Kubernetes' fields."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from invoking import invoke

from mlbench.records.environment import observe_environment

SUITE = """# ünïcode, and "quotes"
name = "Nightly_1"
[[runs]]
workload = "resnet50"
backend = "null"
scenario = ["Offline", "Server"]
settings = { "execution.instances" = 2 }
"""
FIELDS = json.loads((Path(__file__).parents[2] / "data/schedulers/kubernetes_1_31_fields.json").read_text())
PLAIN = {"str": str, "int": int, "bool": bool, "dict(str, str)": dict}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder whose name needs quotes, with a suite, as the current one."""
    folder = tmp_path / "a $(touch hacked) 'b'"
    folder.mkdir()
    (folder / "suite.toml").write_text(SUITE)
    monkeypatch.chdir(folder)
    for name in ("CACHE", "DATA", "SETTINGS"):
        monkeypatch.setenv(f"MLBENCH_{name}", f"kept/{name.lower()}")
    monkeypatch.delenv("MLBENCH_RESULTS", raising=False)
    return folder


@pytest.fixture
def run(folder):
    return lambda *more: invoke("run", "--suite", "suite.toml", *more)


@pytest.fixture
def script(run):
    """Return the script that a command line prints."""

    def script(*more):
        done = run("--print", "slurm", *more)
        assert (done.exit_code, done.stderr) == (0, "")
        return done.stdout

    return script


@pytest.fixture
def manifest(run):
    """Return the ConfigMap and the Job that a command line prints."""

    def manifest(*more):
        done = run("--print", "kubernetes", "--image", "repo/mlbench:1", "--claim", "bench", *more)
        assert (done.exit_code, done.stderr) == (0, "")
        return list(yaml.safe_load_all(done.stdout))

    return manifest


def options_of(script):
    """Return a script's options as sbatch takes them: from its first comments, up to the first command."""
    first, *lines = script.splitlines()
    assert first.startswith("#!/")
    options = {}
    for line in lines:
        if line.startswith("#SBATCH"):
            (word,) = shlex.split(line.removeprefix("#SBATCH"))
            name, _, value = word.removeprefix("--").partition("=")
            options[name] = value
        elif line.strip() and not line.startswith("#"):
            break
    return options


def carried_out(script, folder):
    """Let bash run a script where srun is a program that writes down what it was given; return that."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    (bin_folder / "srun").write_text(
        '#!/bin/bash\npwd; printenv MLBENCH_CACHE MLBENCH_DATA MLBENCH_SETTINGS; printf "%s\\n" "$@"\n'
    )
    (bin_folder / "srun").chmod(0o755)
    done = subprocess.run(
        ["bash"],
        input=script,
        env={"PATH": f"{bin_folder}:/usr/bin:/bin"},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return done.stdout.splitlines()


def check_fields(value, kind, place=""):
    """Fail for a field that a type of Kubernetes does not have, lacks, or has of another type."""
    if element := re.fullmatch(r"list\[(\w+)\]", kind):
        assert isinstance(value, list), place
        for number, each in enumerate(value):
            check_fields(each, element[1], f"{place}[{number}]")
    elif kind in PLAIN:
        assert type(value) is PLAIN[kind], f"{place} is {value!r}, not {kind}"
        if isinstance(value, dict):
            assert all(isinstance(word, str) for pair in value.items() for word in pair), place
    else:
        known = FIELDS[kind]
        assert value.keys() >= set(known["required"]), place
        for name, each in value.items():
            assert name in known["fields"], f"{place} has no field {name}"
            check_fields(each, known["fields"][name], f"{place}.{name}")


def test_slurm_reads_what_the_job_needs(script):
    options = options_of(script("--cpus", 48, "--memory", 100, "--devices", 4))
    assert options == {
        "job-name": options["job-name"],
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": "48",
        "mem": "100G",
        "exclusive": "",
        "gres": "gpu:4",
        "requeue": "",
        "open-mode": "append",
    }
    assert options_of(script("--devices", "gpu:h100=8"))["gres"] == "gpu:h100:8"


def test_a_job_needs_what_this_machine_has_unless_told(script, manifest):
    here = observe_environment()
    gib = (here.allowance.memory_bytes or here.memory_bytes) // 2**30
    options = options_of(script())
    assert (options["cpus-per-task"], options["mem"]) == (str(here.allowance.threads), f"{gib}G")
    assert ("gres" in options) == bool(here.accelerators)
    (container,) = manifest()[1]["spec"]["template"]["spec"]["containers"]
    asked = container["resources"]["requests"]
    assert (asked["cpu"], asked["memory"]) == (str(here.allowance.threads), f"{gib}Gi")


def test_bash_takes_the_script_and_gives_srun_the_command_that_was_typed(script, folder):
    text = script("--results", "my $HOME", "--set", "load.target_qps=5", "--cpus", 2)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    given = carried_out(text, folder)
    assert given[:4] == [str(folder), *(str(folder / "kept" / name) for name in ("cache", "data", "settings"))]
    assert given[4:7] == ["--ntasks=1", "--cpus-per-task=2", "--cpu-bind=cores"]
    assert Path(given[7]).name == "mlbench"
    assert given[8:] == [
        *("run", "--suite", str(folder / "suite.toml"), "--results", str(folder / "my $HOME")),
        *("--set", "load.target_qps=5"),
    ]
    assert not list(folder.rglob("hacked"))


def test_a_job_makes_its_runs_side_by_side_where_that_is_asked_for(script, folder):
    words = carried_out(script("--cpus", 48, "--devices", 4, "--parallel", 4), folder)
    assert words[words.index("--parallel") + 1] == "4"


def test_kubernetes_knows_every_field_of_the_manifest(manifest):
    suite, job = manifest("--devices", "nvidia.com/mig-1g.10gb=2")
    assert (suite["apiVersion"], suite["kind"]) == ("v1", "ConfigMap")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    check_fields(suite, "V1ConfigMap")
    check_fields(job, "V1Job")
    with pytest.raises(AssertionError, match="has no field jobTemplate"):
        check_fields({**job, "spec": {**job["spec"], "jobTemplate": {}}}, "V1Job")


def test_the_pod_gets_the_suite_the_command_and_folders_that_outlast_it(manifest, folder):
    suite, job = manifest("--set", "load.target_qps=5")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert suite["data"] == {"suite.toml": SUITE}
    assert container["command"] == [
        *("mlbench", "run", "--suite", str(folder / "suite.toml"), "--results", str(folder / "results")),
        *("--set", "load.target_qps=5"),
    ]
    assert {each["name"]: each["value"] for each in container["env"]} == {
        f"MLBENCH_{name}": str(folder / "kept" / name.lower()) for name in ("CACHE", "DATA", "SETTINGS")
    }
    volumes = {each["name"]: each for each in pod["volumes"]}
    mounted = {each["mountPath"]: (volumes[each["name"]], each["subPath"]) for each in container["volumeMounts"]}
    claim = {"name": "kept", "persistentVolumeClaim": {"claimName": "bench"}}
    assert mounted == {
        str(folder / "suite.toml"): ({"name": "suite", "configMap": {"name": suite["metadata"]["name"]}}, "suite.toml"),
        str(folder / "results"): (claim, "results"),
        str(folder / "kept/data"): (claim, "data"),
        str(folder / "kept/cache"): (claim, "cache"),
        str(folder / "kept"): (claim, "settings"),
    }


def test_the_pod_has_its_threads_memory_and_devices_to_itself(manifest):
    _, job = manifest("--cpus", 8, "--memory", 30, "--devices", 2)
    pod = job["spec"]["template"]["spec"]
    wanted = {"cpu": "8", "memory": "30Gi", "nvidia.com/gpu": "2"}
    assert pod["containers"][0]["resources"] == {"requests": wanted, "limits": wanted}
    (rule,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["labelSelector"]["matchLabels"].items() <= job["spec"]["template"]["metadata"]["labels"].items()


def test_a_job_is_continued_unless_all_of_it_is_to_be_made_anew(script, manifest):
    spec = manifest()[1]["spec"]
    final, disrupted = spec["podFailurePolicy"]["rules"]
    assert spec["backoffLimit"] > 0
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # else Kubernetes takes no rules
    assert (final["action"], final["onExitCodes"]["values"]) == ("FailJob", [1, 2])
    assert disrupted["action"] == "Ignore"
    fresh = manifest("--fresh")[1]["spec"]
    assert fresh["backoffLimit"] == 0
    assert "podFailurePolicy" not in fresh
    assert "--fresh" in fresh["template"]["spec"]["containers"][0]["command"]
    text = script("--fresh")
    assert {"no-requeue", "requeue"} & options_of(text).keys() == {"no-requeue"}
    assert " --fresh" in text.splitlines()[-1]


@pytest.mark.parametrize("name", ["nightly", "Nightly_1", "nightly-1", "NÄCHTLICH", "x" * 60, "+"])
def test_a_name_is_a_label_and_no_other_suites(name, folder, manifest):
    (folder / "suite.toml").write_text(SUITE.replace("Nightly_1", name))
    label = manifest()[1]["metadata"]["name"]
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", label)
    (folder / "suite.toml").write_text(SUITE.replace("Nightly_1", f"{name}."))
    assert manifest()[1]["metadata"]["name"] != label


@pytest.mark.parametrize("text", ["# a\ttab \n", "# trailing \n\n\n", "# \N{RIGHT-TO-LEFT OVERRIDE}\n", "# no end"])
def test_the_suite_arrives_as_it_is(text, folder, manifest):
    (folder / "suite.toml").write_bytes((SUITE + text).encode())
    assert manifest()[0]["data"]["suite.toml"] == SUITE + text


def test_printing_runs_nothing_and_makes_nothing(run, folder):
    run("--print", "slurm")
    assert [each.name for each in folder.iterdir()] == ["suite.toml"]


def test_a_backend_that_cannot_run_here_may_run_where_the_job_does(folder, script):
    (folder / "suite.toml").write_text('name = "gpu"\n[[runs]]\nworkload = "resnet50"\nbackend = "tensorrt"\n')
    assert options_of(script("--devices", 1))["job-name"] == "mlbench-gpu"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--print", "pbs"), "'pbs' is not one of 'slurm', 'kubernetes'"),
        (("--print", "slurm", "--json"), "--json is given together with --print"),
        (("--print", "slurm", "--image", "x"), "--image is given without --print kubernetes"),
        (("--print", "kubernetes", "--claim", "x"), "--image is missing"),
        (("--print", "kubernetes", "--image", "x"), "--claim is missing"),
        (("--cpus", "2"), "--cpus is given without --print"),
        (("--print", "slurm", "--cpus", "1"), "execution.instances is 2 with resnet50, and the job has 1 threads"),
        (("--print", "slurm", "--devices", "=2"), "'=2' is not N or KIND=N"),
        (("--print", "slurm", "--devices", "a b=2"), "'a b=2' is not N or KIND=N"),
        (("--print", "slurm", "--set", "execution.batch=no"), "execution.batch is 'no'"),
        (("--print", "slurm", "--results", "a\x1bb"), "not printable"),
        (("--print", "slurm", "--tier", "dev"), "tier is given together with --suite"),
        (("--print", "slurm", "--cpus", "4", "--parallel", "5"), "--parallel is 5, and the job has 4 threads"),
        (("--print", "slurm", "--devices", "2", "--parallel", "3"), "--parallel is 3, and the job has 2 devices"),
        (("--print", "slurm", "--parallel", "2", "--set", "execution.devices=0"), "together with execution.devices=0"),
    ],
)
def test_wrong_usage_is_told_in_one_line(words, told, run):
    done = run(*words)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


def test_a_job_needs_a_suite():
    done = invoke("run", "resnet50", "--print", "slurm")
    assert (done.exit_code, done.stderr) == (
        2,
        "Error: --print is given without --suite. A job makes the runs of a suite file.\n",
    )


def test_a_suite_that_no_configmap_holds_is_refused(folder, run):
    (folder / "suite.toml").write_text(SUITE + "#" * 2**20)
    done = run("--print", "kubernetes", "--image", "x", "--claim", "y")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "At most 1048576 fit in a job" in done.stderr
