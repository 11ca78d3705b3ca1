"""Lines and tables at the width of the terminal."""

import pytest
from click.testing import CliRunner

from mlbench.cli import main


def printed(command, columns):
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(main, command)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


@pytest.mark.parametrize("columns", [80, 120])
def test_list_wraps_below_what_it_says_and_keeps_commands_whole(columns):
    lines = printed(["list"], columns)
    assert max(map(len, lines)) <= columns
    begin = next(line for line in lines if line.startswith("  resnet50"))
    column = begin.index("ResNet-50")
    whole = " ".join(line.strip() for line in lines)
    assert "resnet50 " in whole and "(SingleStream, MultiStream, Server, Offline)" in whole
    follow = lines[lines.index(begin) + 1]
    assert follow.startswith("  retinanet") or follow.startswith(" " * column + "(SingleStream")


def test_without_a_terminal_a_line_is_a_line():
    done = CliRunner(env={"COLUMNS": None}).invoke(main, ["list"])
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  resnet50")]
    assert line.endswith("(SingleStream, MultiStream, Server, Offline)")
