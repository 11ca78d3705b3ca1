"""``mlbench completion``: typed to real shells, each on a terminal of its own, and what they run after Tab is read."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest
from invoking import invoke, refusal

PATIENCE_S = 120
BEGIN = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"], "fish": ["--no-config", "-i"]}
SETUP = {
    "bash": "source {script}",
    "zsh": "autoload -U compinit && compinit -u -D; source {script}",
    "fish": "source {script}",
}
PRINT = {
    "bash": "mlbench() {{ printf '%s\\n' \"$@\" > {typed}; }}",
    "zsh": "mlbench() {{ printf '%s\\n' \"$@\" > {typed}; }}",
    "fish": "function mlbench; printf '%s\\n' $argv > {typed}; end",
}
"""After completion is set up, the command prints its words: completion runs the program, and not this function."""

IDS = (
    "20261121T004501Z-bert-null-Offline-mini-fp32-smoke-3f2a",
    "20261122T004501Z-bert-null-Server-mini-fp32-smoke-b00c",
)


@pytest.fixture
def results(tmp_path):
    """A folder with two runs, as far as completion looks at them."""
    for run in IDS:
        (tmp_path / "results" / run).mkdir(parents=True)
        (tmp_path / "results" / run / "record.json").touch()
    return tmp_path / "results"


@pytest.fixture
def press_tab(tmp_path, results):
    """Return a function that types words and Tab to a shell, and returns the words that the command is then given."""
    program = tmp_path / "bin" / "mlbench"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom mlbench.cli import main\nmain()\n")
    program.chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if name not in {"ZDOTDIR", "BASH_ENV"}},
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "dumb",
        "MLBENCH_RESULTS": str(results),
    }

    def press_tab(shell, text):
        if not shutil.which(shell):
            pytest.skip(f"{shell} is not installed")
        script, typed = tmp_path / f"script.{shell}", tmp_path / "typed"
        script.write_bytes(subprocess.run([program, "completion", shell], capture_output=True, check=True).stdout)
        lines = [SETUP[shell].format(script=script), PRINT[shell].format(typed=typed), f"mlbench {text}\t"]
        return typed_to([shell, *BEGIN[shell]], lines, environment, typed)

    return press_tab


def typed_to(command, lines, environment, typed):
    """Type lines to a shell on a terminal, each with Enter, until the file is there; return its lines."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(command[0], command, environment)
    shown, ends = b"", time.monotonic() + PATIENCE_S
    os.write(terminal, "".join(f"{line}\r" for line in lines).encode())
    try:
        while not (typed.exists() and typed.read_text().endswith("\n")):
            assert time.monotonic() < ends, shown.decode(errors="replace")
            if select.select([terminal], [], [], 0.05)[0]:
                shown += os.read(terminal, 65536)  # a shell waits where nobody reads
        return typed.read_text().splitlines()
    finally:
        os.kill(child, 9)
        os.close(terminal)
        os.waitpid(child, 0)


@pytest.mark.thorough(
    "command line",
    but=["roofl--bash", "roofl--zsh", "roofl--fish", "show_20261122--bash", "run_bert_--set_execution.larg--bash"],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("roofl", ["roofline"]),
        ("run stable", ["run", "stable-diffusion-xl"]),
        ("run --backend onnxr", ["run", "--backend", "onnxruntime"]),
        ("settings bert null --scenario Multi", ["settings", "bert", "null", "--scenario", "MultiStream"]),
        ("show 20261122", ["show", IDS[1]]),
        ("run bert --set execution.larg", ["run", "bert", "--set", "execution.largest_batch="]),
        ("run bert --set execution.batching=dyn", ["run", "bert", "--set", "execution.batching=dynamic"]),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)
def test_a_shell_completes(press_tab, shell, text, words):
    assert press_tab(shell, text) == words


@pytest.mark.thorough("command line", but=["run_--tier=val--bash"])
@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run --tier=val", ["run", "--tier=valid"]),
        ("run bert --set=execution.batching=dyn", ["run", "bert", "--set=execution.batching=dynamic"]),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)
def test_a_value_after_an_option_and_an_equals_sign_is_completed(press_tab, shell, text, words):
    assert press_tab(shell, text) == words


def test_the_random_end_of_a_runs_id_becomes_the_whole_id(press_tab):
    assert press_tab("bash", "verify b00c") == ["verify", IDS[1]]


def complete(words, results):
    """Return what is offered for the last of these words, and the modules that were imported for it."""
    script = """
import sys
from mlbench.cli import main
try:
    main()
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
    variables = {"COMP_WORDS": " ".join(["mlbench", *words]), "COMP_CWORD": str(len(words))}
    environment = {
        **os.environ,
        **variables,
        "_MLBENCH_COMPLETE": "bash_complete",
        "MLBENCH_RESULTS": str(results),
    }
    command = [sys.executable, "-c", script.replace("main()", "main(prog_name='mlbench')")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line], set(done.stderr.split())


@pytest.mark.parametrize("words", [["ru"], ["run", "be"], ["show", "2026"], ["run", "--set", "backend.th"]])
def test_completion_imports_nothing_heavy(words, results):
    offered, modules = complete(words, results)
    assert offered
    assert modules & {"torch", "onnxruntime", "transformers", "numpy", "pydantic", "scipy", "duckdb"} == set()


def test_keys_are_those_of_the_backend_and_the_workload_that_were_named(results):
    offered, _ = complete(["run", "gptj", "--backend", "endpoint", "--set", "w"], results)
    assert offered == [
        "workload.data=",
        "workload.weights=",
        "workload.tokenizer=",
        "workload.smaller=",
        "workload.layers=",
        "workload.perplexity=",
    ]
    offered, _ = complete(["run", "--backend", "endpoint", "--set", "backend.re"], results)
    assert offered == ["backend.retries="]


def test_runs_of_the_named_folder_are_offered_newest_first_and_none_where_there_is_none(results, tmp_path):
    assert complete(["show", "--results", str(results), "2"], tmp_path)[0] == [*reversed(IDS)]
    assert complete(["show", "2"], tmp_path / "missing")[0] == []


def test_a_shell_that_is_not_known_is_refused():
    assert "'bash', 'zsh', 'fish'" in refusal(invoke("completion", "tcsh"))
