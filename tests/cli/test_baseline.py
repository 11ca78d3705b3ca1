"""``mlbench baseline``: what it says of the runs that it saves."""

from click.testing import CliRunner

from mlbench.cli import main


def test_a_baseline_made_beside_other_work_is_saved_and_said_to_be(a_run, tmp_path):
    for name in ("one", "two"):
        run = a_run(run_id=name, tag="busy", other_work={"processes": 0.45, "stolen": 0.03})
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(run.text())
    done = CliRunner().invoke(main, ["baseline", "save", "good", "busy", "--results", str(tmp_path)])
    assert done.stdout == (
        "good: 2 runs\n2 of 2 runs had other work beside them, which used up to 48% of the processors: "
        "measure again on a quiet machine before others are judged by these.\n"
    )
