"""A stranger's command, installed from outside."""

from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "mlbench_space"


@pytest.mark.slow
def test_an_outside_command_is_listed_and_run_and_refuses_in_one_line(mlbench, with_the_plugin, a_run, tmp_path):
    assert "space  " in mlbench("--help").stdout
    refused = mlbench("space")
    empty = with_the_plugin["MLBENCH_RESULTS"]
    assert (refused.returncode, refused.stderr) == (
        2,
        f"Error: no runs in {empty}. Name their folder with --results.\n",
    )
    for number, workload in enumerate(("bert", "resnet50", "bert")):
        folder = tmp_path / f"run-{number}"
        (folder / "performance").mkdir(parents=True)
        text = a_run(workload=workload).text()
        (folder / "record.json").write_text(text)
        (folder / "performance" / "log.txt").write_bytes(bytes(2 * 2**20 - len(text.encode())))
    shown = mlbench("space", "--results", str(tmp_path))
    assert shown.stdout == "bert: 2 runs, 4.00 MiB\nresnet50: 1 runs, 2.00 MiB\n"
