"""The first ten minutes with mlbench, as text: what a newcomer types, what the terminal then shows, how long it took.

``python benchmarks/first_minutes.py --width 80 --output first.txt`` clones this repository, takes an empty folder for a
home, carries out README's "Three minutes to a number" and what ``mlbench demo`` says to type next, and writes what a
terminal of that width holds after each command. Progress that goes away is not in it. With ``--installed FOLDER`` (the
``bin`` of an environment that has mlbench) nothing is installed, which the transcript says. Exit status 1 where a
command ended with 2 or more.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
ROWS = 40
INSTALL = ("python3 -m venv .venv", ".venv/bin/pip install --quiet -c constraints.txt '.[cpu]'")
NEXT = "What to type next"
TOO_LONG = "in ten minutes"
"""In the words below a command: it is not carried out."""
THEN = ("mlbench doctor",)

_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b.")


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command, what the terminal shows of it, and how it ended."""

    command: str
    shown: str
    seconds: float
    status: int

    def __str__(self) -> str:
        return f"$ {self.command}\n{self.shown}\n[{self.seconds:.1f} s, exit status {self.status}]\n"


class Screen:
    """The lines of a terminal that is as high as needed: enough of one for colours and progress that goes away."""

    def __init__(self) -> None:
        self._lines, self._row, self._column = [""], 0, 0

    def write(self, text: str) -> None:
        """Take in what a program wrote."""
        end = 0
        for control in _CONTROL.finditer(text):
            self._print(text[end : control.start()])
            self._control(control[1] or "", control[2] or "")
            end = control.end()
        self._print(text[end:])

    def text(self) -> str:
        """Return all lines, without blanks at their ends."""
        return "\n".join(line.rstrip() for line in self._lines).strip("\n")

    def _control(self, numbers: str, letter: str) -> None:
        if letter == "A":
            self._row = max(0, self._row - int(numbers or 1))
        elif letter == "K":
            kept = "" if numbers == "2" else self._lines[self._row][: self._column]
            self._lines[self._row] = kept

    def _print(self, text: str) -> None:
        for part in re.split(r"(\r|\n)", text):
            if part == "\r":
                self._column = 0
            elif part == "\n":
                self._row += 1
                self._lines += [""] * (self._row + 1 - len(self._lines))
            else:
                line = self._lines[self._row].ljust(self._column)
                self._lines[self._row] = line[: self._column] + part + line[self._column + len(part) :]
                self._column += len(part)


def carry_out(command: str, folder: Path, environment: dict[str, str], width: int) -> Step:
    """Run a command in a shell, in a terminal of that width."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, width, 0, 0))
    began_s = time.monotonic()
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], cwd=folder, env=environment, stdin=inside, stdout=inside, stderr=inside
    )
    os.close(inside)
    os.write(terminal, b"\n")  # a question gets its default
    written = b"".join(_read(terminal))
    status = process.wait()
    seconds = time.monotonic() - began_s
    os.close(terminal)
    screen = Screen()
    screen.write(written.decode(errors="replace"))
    return Step(command=command, shown=screen.text(), seconds=seconds, status=status)


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux's word for the end: no process has the terminal any more
            return
        if not part:
            return
        yield part


def advised(shown: str) -> list[str]:
    """Return the commands that the demo says to type next, but those that it says take long."""
    lines = shown.partition(NEXT)[2].splitlines()
    found: list[tuple[str, str]] = []
    for line in lines:
        if line.startswith("  mlbench "):
            found.append((line.strip(), ""))
        elif line.startswith("      ") and found:
            command, said = found[-1]
            found[-1] = (command, f"{said} {line.strip()}")
    return [command for command, said in found if TOO_LONG not in said]


def steps(clone: Path, environment: dict[str, str], width: int, *, installs: bool) -> Iterator[Step]:
    """Carry out the newcomer's commands one after another."""
    for command in INSTALL if installs else ():
        yield carry_out(command, clone, environment, width)
    demo = carry_out("mlbench demo", clone, environment, width)
    yield demo
    for command in (*advised(demo.shown), *THEN):
        yield carry_out(command, clone, environment, width)
    runs = sorted(each.name for each in (clone / "results").glob("2*-resnet50-*"))[:2]
    yield carry_out(f"mlbench compare {' '.join(run[-4:] for run in runs)} --across backend", clone, environment, width)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Write the first minutes with mlbench as text.")
    parser.add_argument("--width", type=int, default=80, help="columns of the terminal")
    parser.add_argument("--output", type=Path, required=True, help="the file to write")
    parser.add_argument("--installed", type=Path, metavar="FOLDER", help="the bin of an environment with mlbench")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    taken: list[Step] = []
    with tempfile.TemporaryDirectory() as home:
        clone = Path(home) / "mlbench"
        source: Sequence[str] = ("git", "clone", "--quiet", os.fspath(CHECKOUT), os.fspath(clone))
        subprocess.run(source, check=True)
        programs = asked.installed.resolve() if asked.installed else clone / ".venv" / "bin"
        environment = {"HOME": home, "PATH": f"{programs}:{os.environ['PATH']}", "TERM": "xterm-256color"}
        cache = os.environ.get("PIP_CACHE_DIR", os.path.expanduser("~/.cache/pip"))
        environment |= {"PIP_CACHE_DIR": cache, "LANG": "C.UTF-8"}
        how = f"no installation: mlbench of {programs}" if asked.installed else "packages as pip's cache has them"
        with asked.output.open("w", encoding="utf-8") as file:
            file.write(f"{asked.width} columns, empty home, fresh clone; {how}\n\n")
            for step in steps(clone, environment, asked.width, installs=not asked.installed):
                taken.append(step)
                print(step, file=file, flush=True)
    longest = max(len(line) for step in taken for line in step.shown.splitlines())
    print(f"{len(taken)} commands, {sum(step.seconds for step in taken):.0f} s; longest line {longest} characters")
    return 1 if any(step.status > 1 for step in taken) else 0


if __name__ == "__main__":
    sys.exit(main())
