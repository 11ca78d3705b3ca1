"""``python -m mlbench``: the command, where no script of that name is on the path."""

from mlbench.cli import main

main(prog_name="mlbench")
