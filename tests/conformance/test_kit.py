"""The kit as its users meet it: as pytest classes, and as `mlbench check`."""

import json
import subprocess
import sys

import pytest
from invoking import invoke

from mlbench.conformance import EngineConformance, GraphBackendConformance
from mlbench.conformance.isolated import CheckRequest, ChecksAnswer, ChecksRequest, run_checks
from mlbench.conformance.kit import CHECKS_OF_ANSWERS_IN_TEXT, CHECKS_OF_ENGINES, CHECKS_OF_GRAPHS, checks_for
from mlbench.discovery import Plugins
from mlbench.execution.processes.isolation import ChildFunction, ProcessLimits, call_isolated


class TestRight(GraphBackendConformance):
    @pytest.fixture
    def backend(self, broken_plugin):
        return Plugins.discover().backend("right")


@pytest.mark.thorough("kit")
class TestNull(EngineConformance):
    @pytest.fixture
    def backend(self):
        return Plugins.discover().backend("null")


def test_a_backend_that_cannot_run_here_is_skipped_with_its_reason(on_trial):
    class TestAbsent(EngineConformance):
        pass

    with pytest.raises(pytest.skip.Exception, match="absent: its runtime is not installed; pip install runtime"):
        TestAbsent.subject.__wrapped__(TestAbsent(), on_trial("absent").backend)


def test_graph_checks_are_for_backends_that_compile_graphs(on_trial):
    assert set(checks_for(on_trial("null").backend)) == set(CHECKS_OF_ENGINES)
    assert set(checks_for(on_trial("right").backend)) == {*CHECKS_OF_ENGINES, *CHECKS_OF_GRAPHS}


def test_every_check_has_a_name_of_its_own_and_a_demand_of_one_line():
    checks = [*CHECKS_OF_ENGINES, *CHECKS_OF_GRAPHS]
    assert len({check.__name__ for check in checks}) == len(checks)
    assert all(check.__doc__.splitlines()[0].endswith(".") for check in checks)


def test_the_kit_can_be_used_without_pytest_and_is_imported_without_torch():
    script = (
        "import sys, mlbench.conformance.kit; print(sorted({'pytest', 'torch', 'onnxruntime'} & sys.modules.keys()))"
    )
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert printed == "[]\n"


def checked(*arguments):
    """Run `mlbench check --json` and return its exit status and findings by check."""
    result = invoke("check", *arguments, "--json")
    return result.exit_code, {each["check"]: each for each in json.loads(result.stdout)}


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))


@pytest.mark.thorough("kit")
@pytest.mark.usefixtures("broken_plugin", "own_cache")
@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        ("crashing", "crash: the process was ended by SIGSEGV"),
        ("leaving", "exit: the process left with status 0 before it was done"),
        ("hanging", "hang: no sign of life for"),
    ],
)
def test_a_backend_that_takes_the_process_down_fails_the_check_it_does_so_in_and_no_other(backend, reason):
    status, findings = checked(backend, "--timeout", "20")
    assert status == 1
    failed = [name for name, finding in findings.items() if not finding["passed"] and not finding["refused"]]
    assert failed == ["answers_after_flush"]
    assert findings["answers_after_flush"]["reason"].startswith(reason)
    assert len(findings) == len(CHECKS_OF_ENGINES) + len(CHECKS_OF_ANSWERS_IN_TEXT)


@pytest.mark.usefixtures("own_cache")
def test_each_compiled_graph_is_a_sign_of_life(tmp_path):
    checks, messages = ["runs_again_after_exit", "stops_without_work"], []
    kind = f"{CheckRequest.__module__}:{CheckRequest.__name__}"
    asked = ChecksRequest(kind=kind, request=CheckRequest(backend="null"), checks=checks)
    limits = ProcessLimits(stage_timeout_s=60, memory_bytes=2**40)
    call_isolated(
        ChildFunction(f"{run_checks.__module__}:run_checks", ChecksAnswer),
        asked,
        tmp_path / "log",
        limits,
        messages.append,
    )
    signs = [message.stage for message in messages if not message.facts]
    assert signs == [*3 * checks[:1], *2 * checks[1:]]  # each begins, and makes two engines, or one


@pytest.mark.usefixtures("own_cache")
def test_a_good_backend_passes_with_its_options_set_and_exit_status_0():
    result = invoke("check", "null", "--set", "backend.delay_ms=1")
    assert result.exit_code == 0
    count = len(CHECKS_OF_ENGINES)
    assert result.stdout.splitlines()[-1] == f"null: {count} of {count} checks passed."
    assert result.stdout.count("ok ") == count


@pytest.mark.thorough("kit")
@pytest.mark.usefixtures("broken_plugin", "own_cache")
def test_what_a_backend_refuses_is_counted_apart_with_its_reason_and_nothing_taken_is_exit_status_2():
    names = ("probes_at_once", "answers_one_at_a_time", "answers_all_at_once")
    result = invoke("check", "honest-text", *(f"--only={name}" for name in names))
    assert result.exit_code == 2
    assert result.stdout.splitlines()[1:] == [
        "refused answers_one_at_a_time",
        "refused answers_all_at_once",
        "2 checks of batches of samples, refused: honest-text cannot run conformance: it has words alone. "
        "Give it prompts.",
        "honest-text: 1 of 1 checks passed, 2 refused.",
    ]


@pytest.mark.thorough("kit")
@pytest.mark.usefixtures("broken_plugin", "own_cache")
def test_a_backend_that_takes_prompts_and_refuses_batches_passes():
    names = ("stops_without_work", "answers_all_at_once")
    result = invoke("check", "honest-text", *(f"--only={name}" for name in names))
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "honest-text: 1 of 1 checks passed, 1 refused.")


@pytest.mark.thorough("kit")
@pytest.mark.usefixtures("broken_plugin", "own_cache")
def test_a_backend_that_refuses_for_one_check_what_it_took_for_another_fails():
    names = ("counts_the_tokens_it_gives", "reports_the_first_token_it_gives")
    result = invoke("check", "fickle", *(f"--only={name}" for name in names))
    assert result.exit_code == 1
    assert "FAILED  reports_the_first_token_it_gives" in result.stdout
    assert (
        "the backend refused prompts of a language model, but accepted them for the check counts_the_tokens_it_gives: "
        "not now." in result.stdout
    )


@pytest.mark.usefixtures("broken_plugin", "own_cache")
def test_the_kits_language_model_is_written_for_a_server_with_the_commands_that_come_next(tmp_path):
    folder = tmp_path / "model"
    for _ in range(2):  # again in its place
        result = invoke("check", "null", "--write-model", folder)
        assert result.exit_code == 0
    assert f"  transformers serve {folder} --device cpu" in result.stdout
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["LlamaForCausalLM"]
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


@pytest.mark.usefixtures("broken_plugin", "own_cache")
def test_the_kits_language_model_replaces_nothing_else(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    result = invoke("check", "null", "--write-model", tmp_path)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "exists, and contains other files than the kit's model. Name a new folder." in result.stderr
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.usefixtures("broken_plugin", "own_cache")
def test_a_failed_check_tells_what_is_demanded_what_came_and_what_to_do():
    result = invoke("check", "secretive")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("FAILED"))
    assert "reports_facts_as_json" in lines[place]
    assert [line.split()[0] for line in lines[place + 1 : place + 4]] == [
        "Engine.statistics()",
        "Convert",
        "`Engine.statistics`",
    ]


@pytest.mark.usefixtures("broken_plugin", "own_cache")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nul"], "unknown backend 'nul'. Did you mean 'null'?"),
        (["absent"], "absent cannot run here: its runtime is not installed. pip install runtime"),
        (["null", "--precision", "int8"], "null does not offer int8. It offers: fp32."),
        (["null", "--set", "backend.dely_ms=1"], "unknown setting 'backend.dely_ms' (command line). Did you mean"),
        (["null", "--set", "load.target_qps=1"], "unknown setting 'load.target_qps' (command line)."),
        (["null", "--set", "backend.delay_ms=soon"], "backend.delay_ms is 'soon' (command line)"),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_reported_in_one_line_with_exit_status_2(arguments, message):
    result = invoke("check", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {message}")
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("broken_plugin", "own_cache")
def test_the_badge_of_a_plugin_that_fails_a_check_is_red_and_counts_those_it_passed(tmp_path):
    file = tmp_path / "badge.svg"
    result = invoke("plugin", "check", "secretive", "--badge", file)
    count = len(CHECKS_OF_ENGINES)
    assert result.exit_code == 1
    assert f"<title>mlbench conformance: {count - 4} of {count - 3}, 3 refused, fp32</title>" in file.read_text()
    assert "#cf222e" in file.read_text()
