"""``python -m mlbench``: the command, where no script of that name is on the path."""

from mlbench.cli import main

if __name__ == "__main__":
    main(prog_name="mlbench")
