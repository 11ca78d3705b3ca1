"""What ``mlbench --help`` lists: mlbench's own commands in groups, each with a line, none of them imported."""

from __future__ import annotations

from collections.abc import Mapping

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Measure": {
        "demo": "A one-minute tour: one run, what its result means, what to type next.",
        "run": "Measure workloads on backends, and store run folders.",
        "serve": "A node of the network division: runs reach it with --network.",
        "tune": "Find the highest sustained Server rate, and confirm it with full runs.",
        "curve": "Throughput against latency, at rates from low to saturated.",
        "doctor": "This machine, its noise, and what each backend still needs.",
        "list": "Workloads, backends and scenarios, and what each still needs.",
        "settings": "Each setting of a workload on a backend, and where it comes from.",
        "roofline": "This machine's peak compute and bandwidth, measured once.",
    },
    "Read": {
        "table": "Stored runs as a table; --markdown: what passes where.",
        "show": "One run: its result, every rule, and the conditions.",
        "report": "Runs or a comparison as one HTML file, or as Markdown.",
        "site": "All runs as static pages: results, backends compared, histories.",
        "verify": "Check a run's record against its LoadGen logs.",
        "cost": "Samples or tokens per unit of money, on the instances you name.",
    },
    "Compare": {
        "replay": "Repeat a stored run as its record says, and compare the two.",
        "compare": "Two sets of runs: faster, slower, same or inconclusive.",
        "regress": "Exit 1 when runs are slower or less accurate than a baseline.",
        "baseline": "Save, list and remove named sets of runs to compare with.",
        "history": "Find the runs at which a metric stepped up or down.",
        "published": "Published v4.1 results; --place RUN: where a run ranks among them.",
    },
    "Data": {
        "fetch": "Official models and data into one folder, verified; --plan: what it takes.",
        "query": "SQL over stored runs and published results.",
        "export": "Stored runs as one Parquet or CSV file.",
        "onnx": "A workload's graphs as ONNX files, for a server or a tool.",
        "import": "Results of an official submission tree, as stored runs.",
        "audit": "Run the compliance tests on a run: TEST01, 04, 05 and 06.",
        "system": "This machine as a submission describes it, and what you must add.",
        "submit": "Plan, build and check an MLPerf submission.",
    },
    "Extend": {
        "check": "Check a backend, or a workload.",
        "plugin": "Start a package for your own backend or workload.",
        "completion": "Print a script that completes commands in bash, zsh or fish.",
    },
}

COMMANDS = tuple(name for commands in SECTIONS.values() for name in commands)
