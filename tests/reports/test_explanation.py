"""A run in sentences, and what they tell a reader to do."""

import pytest
from invoking import invoke

from mlbench.cli import main
from mlbench.reports.explanation import explain, next_step, sentence
from mlbench.reports.page import page


def test_a_good_run_says_its_result_that_it_counts_and_how_to_measure_for_a_comparison(a_run):
    run = a_run()
    assert sentence(run) == (
        "resnet50 on pytorch (fp32, Offline): 685 samples/s; valid for tier smoke, accurate: acc 98.99 >= 98.00."
    )
    typed = "mlbench run resnet50 --backend pytorch --scenario Offline --precision fp32 --repeat 5 --tag before"
    assert next_step(run) == f"To compare it later, measure it five times under a name: {typed}"


def test_the_command_for_a_comparison_has_the_tier_and_profile_of_the_run_and_parses(a_run):
    typed = next_step(a_run(tier="dev", profile="full")).partition("mlbench ")[2]
    assert "--profile full --tier dev" in typed
    name, *arguments = typed.split()
    main.get_command(None, name).make_context(name, arguments)


def test_an_invalid_run_names_the_rule_that_failed_and_its_fix(a_late_run):
    run = a_late_run()
    assert sentence(run).endswith(
        "148 samples/s, but the run is INVALID: loadgen_result, latency_limit, early_stopping failed."
    )
    assert next_step(run).startswith("Reduce target QPS to improve latency.")
    assert ("INVALID", "failed: loadgen_result, latency_limit, early_stopping") in explain(run)


def test_a_run_whose_speed_was_not_checked_says_so_and_why(a_run):
    why = "1 of 1 known samples have the fp32 model's answer"
    verdict = a_run().verdict.model_dump() | {"not_applied": {"timed_answers": why}}
    run = a_run(format=4, verdict=verdict)
    assert f"; valid for tier smoke, but not checked (timed_answers: {why}), accurate: " in sentence(run)
    assert why in dict(explain(run))["not checked"]
    assert "valid" not in dict(explain(run))


def test_a_run_that_failed_says_how_and_where(a_run):
    failure = {"kind": "crash", "message": "killed by SIGSEGV.", "stage": "warm-up", "log_tail": ""}
    run = a_run(status="failed", failure=failure, result=None, verdict=None, accuracy=None)
    assert sentence(run) == "resnet50 on pytorch (fp32, Offline) has no result: crash during warm-up."
    assert next_step(run).startswith("killed by SIGSEGV. ")


def test_an_official_run_is_sent_to_the_published_ones(a_run, imported):
    assert "mlbench published --place 81b3" in next_step(a_run(imported=imported, tier="valid", profile="full"))
    assert "--repeat 5" in next_step(a_run(tier="valid"))


def test_the_page_of_a_run_begins_with_the_sentence_and_what_to_do(a_late_run):
    run = a_late_run()
    assert page(run).splitlines()[:3] == [sentence(run), next_step(run), ""]


def test_each_part_of_a_servers_line_is_explained(a_server_run):
    explained = dict(explain(a_server_run()))
    assert explained["18.5 samples/s"].endswith("at random arrival times")
    assert explained["p99 59.1 ms"] == "99 % were answered within this time"
    assert "overhead 1.34 ms" in explained


@pytest.mark.slow
def test_the_demo_measures_explains_and_names_commands_that_exist(tmp_path, tmp_path_factory):
    settings = tmp_path_factory.mktemp("machine") / "settings.toml"
    settings.write_text('[[settings]]\nwhen.backend = "null"\nbackend.service_ms = 1\n')  # it keeps no core busy
    done = invoke("demo", "--backend", "null", "--results", tmp_path, env={"MLBENCH_SETTINGS": str(settings)})
    assert done.exit_code == 1  # zeros are not the right labels
    headings = [line for line in done.stdout.splitlines() if line[:1].isdigit()]
    assert [heading[:2] for heading in headings] == ["1.", "2.", "3.", "4."]
    assert "MISSES 98.00" in done.stdout
    (folder,) = tmp_path.iterdir()
    assert str(folder) in done.stdout
    for line in done.stdout.partition("4. What")[2].splitlines():
        if line.startswith("  mlbench "):
            _, name, *arguments = line.split()
            main.get_command(None, name).make_context(name, arguments)


def test_the_name_alone_prints_help():
    done = invoke()
    assert (done.exit_code, done.stderr) == (0, ""), repr(done.exception)
    assert done.stdout == invoke("--help").stdout
