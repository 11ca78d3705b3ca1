"""``mlbench baseline``: what it says of the runs that it saves."""

from invoking import invoke


def test_a_baseline_made_beside_other_work_is_saved_and_said_to_be(a_run, tmp_path):
    for name in ("one", "two"):
        run = a_run(run_id=name, tag="busy", other_work={"processes": 0.45, "stolen": 0.03})
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(run.text())
    done = invoke("baseline", "save", "good", "busy", "--results", tmp_path)
    assert done.stdout == (
        "good: 2 runs\n2 of 2 runs were made under other load, which took up to 48% of the processors: "
        "measure again on a quiet machine before you compare later runs with these.\n"
    )


def stored(folder, *runs):
    for run in runs:
        (folder / run.run_id).mkdir()
        (folder / run.run_id / "record.json").write_text(run.text())


def invalid(run):
    rule = run.verdict.rules[0].model_copy(update={"rule": "min_duration", "passed": False, "required": True})
    return run.model_copy(update={"verdict": run.verdict.model_copy(update={"is_valid": False, "rules": [rule]})})


def test_runs_of_a_baseline_that_failed_or_are_invalid_are_counted_with_their_reasons(a_run, a_failure, tmp_path):
    stored(
        tmp_path,
        a_run(run_id="one", tag="night"),
        invalid(a_run(run_id="two", tag="night")),
        a_failure.model_copy(update={"run_id": "three", "tag": "night"}),
    )
    done = invoke("baseline", "save", "good", "night", "--results", tmp_path)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "good: 3 runs"
    assert lines[1].startswith("2 of 3 runs failed or are INVALID, and no later run is judged by them: ")
    assert "two: INVALID: min_duration" in lines[1]
    assert "three: failed (crash during warm-up)" in lines[1]
    assert len(lines) == 2


def test_a_baseline_without_a_valid_run_says_that_nothing_is_judged_by_it(a_failure, tmp_path):
    stored(tmp_path, a_failure.model_copy(update={"run_id": "one", "tag": "night"}))
    done = invoke("baseline", "save", "good", "night", "--results", tmp_path)
    assert done.stdout.splitlines()[-1] == (
        "resnet50 pytorch Offline fp32: no valid run, so nothing of it will be judged. Measure it again, and save the "
        "baseline anew."
    )
