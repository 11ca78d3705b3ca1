"""Whether anything is lost, made twice or blocked when all goes wrong around a suite.

    python benchmarks/chaos.py --rounds 100 --seed 1 --state chaos.json

A round is a suite of short runs in a folder of its own, on a backend that computes nothing and starts processes in
sessions of their own. It is disturbed once to three times, in a way that the seed and the number of the round decide:
the command, the run's process, its supervisor or a process that the backend started is killed, at a random moment or
when a random number of bytes has been written; the disk is full, or files may not grow; two commands make the suite in
one folder, and one of them is killed; stored files are damaged. Then the suite is made once more, undisturbed. Counted
are over all rounds

- lost: runs that are not there in the end, or were there before and are not any more; and on a full disk those that
  were measured and neither stored nor printed;
- duplicated: runs that are there twice;
- blocked: commands that did not end, ended in a traceback, or could not go on;
- left: processes that outlived their command, and folders of runs that were never finished.

The state file keeps the counts: the same command goes on where it was stopped. Exit status 1 when a count is not 0.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import click
import psutil

from mlbench.errors import DataError
from mlbench.records.run_record import RunRecord, read
from mlbench.records.store.run_folder import runs_in
from mlbench.records.store.run_names import RECORD_FILE

SUITE = """
name = "chaos"
repeats = 2

[[runs]]
workload = "resnet50"
backend = "chaotic"
scenario = ["Offline", "SingleStream"]
accuracy = false
settings = { "load.min_duration_ms" = 50, "load.stage_timeout_s" = 300 }
"""
RUNS = 4

PLUGIN = """
import os, subprocess
import numpy as np
from mlbench import Backend, Engine, Probe, hookimpl

class Chaotic(Backend):
    name = "chaotic"
    def probe(self): return Probe(is_available=True, rank=-1000)
    def engine(self, model, plan): return Chaos()

class Chaos(Engine):
    def __enter__(self):
        subprocess.Popen(["sleep", "3600"], start_new_session=True)
        subprocess.Popen(["setsid", "sh", "-c", "sleep 3600 & sleep 3600 & exit"])
        return self
    def submit(self, samples, reply):
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))

@hookimpl
def mlbench_backends(): return [Chaotic()]
"""

COMMAND = [sys.executable, "-P", "-m", "mlbench"]
Kind = tuple[str, str, str, int]

_MARK = "MLBENCH_CHAOS"
_PULSE_S = 0.01
_LATEST_S = 12.0
"""After the start of a command, when it is disturbed."""
_MOST_BYTES = 60_000
_ENDS_WITHIN_S = 600.0
_GONE_WITHIN_S = 30.0
_COUNTS = ("lost", "duplicated", "blocked", "left")


@dataclass(slots=True)
class Round:
    """A suite, its folder, and what has been found out so far."""

    rng: random.Random
    folder: Path
    results: Path
    mark: str
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    known: dict[str, Kind] = field(default_factory=dict)
    """Completed runs that were seen, by folder."""
    damaged: set[str] = field(default_factory=set)
    readers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Start the suite; what it prints goes to a file of this name, by way of a process without its limits."""
        with (self.folder / f"{name}.out").open("wb") as output:
            reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=output)
        assert reader.stdin
        places = [str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.readers[name] = reader
        with reader.stdin as printed:
            return subprocess.Popen(
                [*COMMAND, "run", "--suite", str(self.folder / "suite.toml"), "--results", str(self.results)],
                stdout=printed,
                stderr=printed,
                start_new_session=True,
                env={**os.environ, _MARK: self.mark, "PYTHONPATH": os.pathsep.join(places), "NO_COLOR": "1"},
            )

    def note(self, count: str, what: str) -> None:
        """Count something that must not be."""
        self.counts[count] += 1
        self.notes.append(f"{count}: {what}")

    def wait(self, process: subprocess.Popen[bytes], name: str) -> int:
        """Let a command end; one that does not, or says more than it should, is blocked."""
        try:
            status = process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.note("blocked", f"{name} did not end within {_ENDS_WITHIN_S:.0f} s")
            process.kill()
            status = process.wait()
        self.readers[name].wait(_GONE_WITHIN_S)
        if "\nTraceback" in "\n" + self.printed(name):
            self.note("blocked", f"{name} ended in a traceback: {self.printed(name)[-300:]!r}")
        return status

    def printed(self, name: str) -> str:
        """Return what a command has printed."""
        return (self.folder / f"{name}.out").read_text(errors="replace")

    def look(self) -> None:
        """Remember which runs are there, and count those that were and are not any more."""
        there = {}
        for folder in runs_in(self.results):
            with suppress(DataError):
                record = read(folder)
                if record.status == "completed":
                    there[folder.name] = kind_of(record)
        for name in self.known.keys() - there.keys() - self.damaged:
            self.note("lost", f"{name} is not there any more")
        self.known = there

    def pause(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for a random moment, or until a random number of bytes was written; not beyond the command's end."""
        until_s = time.monotonic() + self.rng.uniform(0.2, _LATEST_S)
        most_bytes = self.rng.randrange(_MOST_BYTES) if self.rng.random() < 0.5 else None
        before_bytes = size_bytes(self.results)
        while process.poll() is None and time.monotonic() < until_s:
            if most_bytes is not None and size_bytes(self.results) - before_bytes >= most_bytes:
                return
            time.sleep(_PULSE_S)


def kind_of(record: RunRecord) -> Kind:
    """Return what identifies a run among all others of a suite."""
    return record.workload, record.backend, record.scenario, record.repeat


def leftovers(results: Path) -> list[str]:
    """Return folders that are not complete run folders."""
    return [folder.name for folder in results.iterdir() if folder.is_dir() and not (folder / RECORD_FILE).is_file()]


def size_bytes(folder: Path) -> int:
    """Return how many bytes are in a folder, of which files may be going away."""
    total_bytes = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total_bytes += os.lstat(os.path.join(place, name)).st_size
    return total_bytes


def marked(mark: str) -> list[psutil.Process]:
    """Return the processes of a round that have not ended, in whatever session."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_MARK) == mark:
                found.append(process)
    return found


def kill(place: Round, process: subprocess.Popen[bytes], wanted: str) -> None:
    """Kill one process of a command, of the kind that is wanted, if there is one."""
    if wanted == "command":
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        return
    fitting = []
    for each in marked(place.mark):
        with suppress(psutil.Error):
            line = " ".join(each.cmdline())
            is_supervisor, is_child = "supervisor.py" in line, "mlbench.execution.processes.child" in line
            kind = "supervisor" if is_supervisor else "child" if is_child else "grandchild"
            if kind == wanted and each.pid != process.pid:
                fitting.append(each)
    if fitting:
        with suppress(psutil.Error):
            place.rng.choice(fitting).kill()


def killing(wanted: str) -> Callable[[Round, str], None]:
    """Return a disturbance that kills a process."""

    def disturb(place: Round, name: str) -> None:
        process = place.start(name)
        for _ in range(place.rng.randint(1, 2)):
            place.pause(process)
            kill(place, process, wanted)
        place.wait(process, name)

    return disturb


def forbid_large_files(place: Round, name: str) -> None:
    """Let no file of a command grow beyond a random size."""
    most_bytes = int(2 ** place.rng.uniform(8, 16))
    process = place.start(name)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))  # for what it starts, too
    place.wait(process, name)
    expect_records(place, name)


def fill_disk(place: Round, name: str) -> None:
    """Leave a random number of bytes on the disk of the results, from a random moment on."""
    if not os.path.ismount(place.results):
        forbid_large_files(place, name)
        return
    process = place.start(name)
    place.pause(process)
    ballast = place.results / ".ballast"
    usage = shutil.disk_usage(place.results)
    with suppress(OSError), ballast.open("wb") as file:
        file.write(b"x" * max(0, usage.free - place.rng.randrange(_MOST_BYTES)))
    place.wait(process, name)
    ballast.unlink(missing_ok=True)
    expect_records(place, name)


def expect_records(place: Round, name: str) -> None:
    """Look whether each run that could not be stored was printed."""
    lines = place.printed(name).splitlines()
    unstored = sum("cannot be stored" in line and "the record" in line for line in lines)
    printed = sum(line.startswith("{") and bool(RunRecord.model_validate_json(line)) for line in lines)
    if printed < unstored:
        place.note("lost", f"{name}: {unstored} runs could not be stored, {printed} were printed")


def make_it_twice(place: Round, name: str) -> None:
    """Have two commands make the suite at once, and perhaps kill one of them."""
    both = [(place.start(f"{name}-{one}"), f"{name}-{one}") for one in ("a", "b")]
    if place.rng.random() < 0.5:
        victim, _ = place.rng.choice(both)
        place.pause(victim)
        kill(place, victim, "command")
    for process, own in both:
        place.wait(process, own)


def damage(place: Round, name: str) -> None:
    """Make some runs, then cut, change or remove files of one of them."""
    wanted = place.rng.randint(1, RUNS)
    process = place.start(name)
    while process.poll() is None and len(runs_in(place.results)) < wanted:
        time.sleep(_PULSE_S)
    kill(place, process, "command")
    place.wait(process, name)
    if not (runs := runs_in(place.results)):
        return
    run = place.rng.choice(runs)
    files = sorted(file for file in run.rglob("*") if file.is_file() and file.stat().st_size)
    file = run / RECORD_FILE if place.rng.random() < 0.5 else place.rng.choice(files)
    content = bytearray(file.read_bytes())
    at = place.rng.randrange(len(content))
    match place.rng.choice(("cut", "change", "remove")):
        case "cut":
            file.write_bytes(content[:at])
        case "change":
            content[at] ^= 1 << place.rng.randrange(8)
            file.write_bytes(content)
        case _:
            file.unlink()
    place.damaged.add(run.name)


DISTURBANCES: dict[str, Callable[[Round, str], None]] = {
    "command killed": killing("command"),
    "child killed": killing("child"),
    "supervisor killed": killing("supervisor"),
    "grandchild killed": killing("grandchild"),
    "disk full": fill_disk,
    "files limited": forbid_large_files,
    "two commands": make_it_twice,
    "files damaged": damage,
}


@contextmanager
def results_folder(folder: Path) -> Iterator[Path]:
    """Make a results folder with a small file system of its own, where that is allowed, else without."""
    results = folder / "results"
    results.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "chaos", str(results)], capture_output=True, check=False
    )
    try:
        yield results
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(results)], check=False)


def play(number: int, seed: int, kinds: list[str]) -> tuple[str, Round]:
    """Play a round; return what was done in it, and what was found."""
    rng = random.Random(f"{seed} {number}")
    with tempfile.TemporaryDirectory(prefix="mlbench-chaos-") as scratch, results_folder(Path(scratch)) as results:
        place = Round(rng=rng, folder=Path(scratch), results=results, mark=f"{os.getpid()}-{seed}-{number}")
        (place.folder / "suite.toml").write_text(SUITE)
        (place.folder / "mlbench_chaotic.py").write_text(PLUGIN)
        distribution = place.folder / "mlbench_chaotic-1.dist-info"
        distribution.mkdir()
        (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: mlbench-chaotic\nVersion: 1\n")
        (distribution / "entry_points.txt").write_text("[mlbench]\nchaotic = mlbench_chaotic\n")
        done = [kinds[number % len(kinds)], *(rng.choice(kinds) for _ in range(rng.randint(0, 2)))]
        for step, name in enumerate(done):
            DISTURBANCES[name](place, f"{step}")
            expect_nothing_left(place, name)
            place.look()
        judge_end(place)
    return ", ".join(done), place


def expect_nothing_left(place: Round, name: str) -> None:
    """Count processes that outlive the commands."""
    until_s = time.monotonic() + _GONE_WITHIN_S
    while (there := marked(place.mark)) and time.monotonic() < until_s:
        time.sleep(_PULSE_S)
    for each in there:
        with suppress(psutil.Error):
            place.note("left", f"after {name}: {' '.join(each.cmdline())}")
            each.kill()


def judge_end(place: Round) -> None:
    """Make the suite to its end, undisturbed, and look whether it is whole."""
    status = place.wait(place.start("end"), "end")
    if status not in (0, 1):
        place.note("blocked", f"the suite could not go on: {place.printed('end')[-300:]!r}")
    expect_nothing_left(place, "the end")
    place.look()
    sound = Counter(kind for name, kind in place.known.items() if name not in place.damaged)
    # a damaged run that can still be read answers for itself
    there = {kind for name, kind in place.known.items()}
    for _ in range(RUNS - len(there)):
        place.note("lost", f"of {RUNS} runs {len(there)} are there: {place.printed('end')[-300:]!r}")
    for kind, times in sound.items():
        if times > 1:
            place.note("duplicated", f"{kind} is there {times} times")
    for name in leftovers(place.results):
        if name not in place.damaged and not name.endswith(".unstored"):
            place.note("left", name)


@click.command()
@click.option("--rounds", default=100, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--state", type=click.Path(path_type=Path), help="Keep counts here, and go on from them.")
@click.option("--without", multiple=True, type=click.Choice(list(DISTURBANCES)), help="Leave this out.")
def main(rounds: int, seed: int, state: Path | None, without: tuple[str, ...]) -> int:
    """Print what was found after every round and at the end."""
    kinds = [name for name in DISTURBANCES if name not in without]
    kept = json.loads(state.read_text()) if state and state.exists() else {}
    if kept and (kept["seed"], kept["without"]) != (seed, sorted(without)):
        raise click.UsageError(f"{state} is of seed {kept['seed']} without {kept['without']}")
    counts, disturbances = Counter(kept.get("counts", {})), Counter(kept.get("disturbances", {}))
    for number in range(kept.get("rounds", 0), rounds):
        began_s = time.monotonic()
        done, place = play(number, seed, kinds)
        counts.update(place.counts)
        disturbances.update(done.split(", "))
        told = "; ".join(place.notes) or "nothing lost, duplicated, blocked or left"
        click.echo(f"{number + 1:>4}  {time.monotonic() - began_s:5.0f} s  {done}: {told}")
        if state:
            whole = {"rounds": number + 1, "seed": seed, "without": sorted(without)}
            beside = state.with_suffix(".partial")
            beside.write_text(json.dumps({**whole, "counts": counts, "disturbances": disturbances}, indent=2))
            beside.replace(state)
    click.echo(", ".join(f"{times} x {name}" for name, times in sorted(disturbances.items())))
    click.echo(f"{rounds} rounds: " + ", ".join(f"{counts[name]} {name}" for name in _COUNTS))
    return 1 if counts.total() else 0


if __name__ == "__main__":
    sys.exit(main(standalone_mode=False))
