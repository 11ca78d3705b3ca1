"""The command line, called in the process of the tests."""

from typing import Any

from click.testing import CliRunner, Result

from mlbench.cli import main


def invoke(*words: object, **options: Any) -> Result:
    """Return what a command did; ``options`` are click's, such as ``env``."""
    return CliRunner().invoke(main, [str(word) for word in words], **options)


def refusal(done: Result) -> str:
    """Return the one line in which a command was refused: it exited with 2, and printed nothing else."""
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    (line,) = done.stderr.strip().splitlines()
    return line
