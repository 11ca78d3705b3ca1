"""What a command costs with thousands of stored runs: the processor time and the memory of its process.

    python benchmarks/many_runs.py RECORD.json table "table --newest 20" history "query 'SELECT count(*) FROM runs'"

The runs are copies of a stored record in a folder of their own, minutes apart, of as many kinds as ``--kinds`` says. A
command runs once so that the cache has what it needs, then is timed.
"""

from __future__ import annotations

import datetime
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import click


def store(record: Path, results: Path, count: int, kinds: int) -> None:
    """Store copies of a record, each under an id and a time of its own."""
    facts = json.loads(record.read_text(encoding="utf-8"))
    for number in range(count):
        created = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(minutes=number)
        facts |= {"run_id": f"{created:%Y%m%dT%H%M%SZ}-{number}", "created": created.isoformat()}
        facts["environment"]["machine"] = f"machine-{number % kinds}"
        (results / facts["run_id"]).mkdir(parents=True)
        (results / facts["run_id"] / "record.json").write_text(json.dumps(facts), encoding="utf-8")


@click.command()
@click.argument("record", type=click.Path(path_type=Path, exists=True))
@click.argument("commands", nargs=-1, required=True)
@click.option("--count", default=10_000, show_default=True)
@click.option("--kinds", default=20, show_default=True)
def main(record: Path, commands: tuple[str, ...], count: int, kinds: int) -> None:
    """Print seconds of processor time and the peak of memory of each command."""
    with tempfile.TemporaryDirectory() as folder:
        store(record, Path(folder, "results"), count, kinds)
        os.environ |= {"MLBENCH_CACHE": f"{folder}/cache"}
        for command in commands:
            line = [sys.executable, "-m", "mlbench", *shlex.split(command), "--results", f"{folder}/results"]
            for _ in range(2):
                process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
                _, status, used = os.wait4(process.pid, 0)
            seconds, mebibytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
            click.echo(f"{seconds:6.2f} s {mebibytes:7.0f} MiB  mlbench {command}{' FAILED' * bool(status)}")


if __name__ == "__main__":
    main()
