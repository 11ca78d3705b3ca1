"""The rate that a Server run sends by default, the one that ``mlbench tune`` finds, and whether that is valid again.

Runs of tier smoke, with their accuracy tests; use a quiet machine. Each workload takes three to six minutes.

Usage: python benchmarks/tuned_rates.py RESULTS [WORKLOAD]... [--backend onnxruntime]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

MLBENCH = (sys.executable, "-m", "mlbench")
WORKLOADS = ("resnet50", "retinanet", "bert", "dlrm-v2", "gptj", "llama2-70b", "mixtral-8x7b", "stable-diffusion-xl")
BY_DEFAULT, AGAIN = 3, 5


def ask(*words: object) -> Any:
    """Return what a command says with ``--json``, its progress on stderr; an INVALID run is an answer too."""
    done = subprocess.run([*MLBENCH, *map(str, words), "--json"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.returncode)
    return json.loads(done.stdout)


def row(workload: str, backend: str, results: str) -> str:
    """Measure a workload, and return its row of the table."""
    server = ("--backend", backend, "--scenario", "Server", "--results", results)
    default = ask("run", workload, *server, "--repeat", BY_DEFAULT, "--tag", "default")
    began_s = time.monotonic()
    rate = ask("tune", workload, *server, "--tier", "smoke")["rate_per_s"]
    took_s = time.monotonic() - began_s
    if rate is None:
        return f"| {workload} | | none found | | | {took_s:.0f} s |"
    again = ask("run", workload, *server, "--set", f"load.target_qps={rate}", "--repeat", AGAIN, "--tag", "tuned")
    rates = [run["load"]["target_qps"] for run in default]
    usual = statistics.median(rates)
    valid = sum(bool(run["verdict"] and run["verdict"]["is_valid"]) for run in again)
    return (
        f"| {workload} | {usual:,.4g}/s ({min(rates):,.4g} to {max(rates):,.4g}) | {rate:,.4g}/s "
        f"| {rate / usual:.2f} | {valid} of {len(again)} | {took_s:.0f} s |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results")
    parser.add_argument("workloads", nargs="*", default=WORKLOADS)
    parser.add_argument("--backend", default="onnxruntime")
    given = parser.parse_args()
    print("| workload | default rate, median and range | tuned | tuned / default | valid again | search |")
    print("|---|---|---|---|---|---|")
    for workload in given.workloads:
        print(row(workload, given.backend, given.results), flush=True)


if __name__ == "__main__":
    main()
