"""The list in ``mlbench --help``: mlbench's own commands in groups, each with a line, without importing them."""

from __future__ import annotations

from collections.abc import Mapping

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Measure": {
        "demo": "Take a one-minute tour: one run, its result explained, next commands.",
        "run": "Measure workloads on backends, and store run folders.",
        "serve": "Run a node of the network division, for `mlbench run --network`.",
        "tune": "Find the highest sustained Server rate, and confirm it with full runs.",
        "precisions": "Compare precisions and transforms: speed, memory, loss.",
        "curve": "Measure throughput against latency, at rates from low to saturated.",
        "doctor": "Show this machine, its noise, and what each backend still needs.",
        "rounds": "List rounds of MLPerf Inference, and what each changed.",
        "rules": "Print what a round asks of a workload, with the sources.",
        "list": "List workloads, backends and scenarios, and what each still needs.",
        "settings": "Show each setting of a workload on a backend, and its source.",
        "roofline": "Measure this machine's peak compute and bandwidth, once.",
    },
    "Read": {
        "table": "Print stored runs as a table; --markdown: what passes where.",
        "show": "Show one run: its result, every rule, and the conditions.",
        "report": "Write runs or a comparison as one HTML file, or as Markdown.",
        "site": "Write all runs as static pages: results, comparisons, histories.",
        "verify": "Check a run's record against its LoadGen logs.",
        "cost": "Compute samples or tokens per unit of money, on named instances.",
    },
    "Compare": {
        "replay": "Repeat a stored run as its record says, and compare the two.",
        "compare": "Compare sets of runs: faster, slower, same or inconclusive.",
        "regress": "Exit 1 when runs are slower or less accurate than a baseline.",
        "bisect": "Find the commit that made a product slower or less accurate.",
        "baseline": "Save, list and remove named sets of runs to compare with.",
        "history": "Find the runs at which a metric stepped up or down.",
        "published": "Print published results of a round; --place RUN: where a run ranks.",
    },
    "Data": {
        "fetch": "Download and verify official models and data; --plan: sizes only.",
        "query": "Run SQL over stored runs and published results.",
        "export": "Write stored runs as one Parquet or CSV file.",
        "onnx": "Write a workload's graphs as ONNX files, for a server or a tool.",
        "import": "Store the results of an official submission tree as runs.",
        "audit": "Run the compliance tests on a run: TEST01, 04, 05 and 06.",
        "system": "Describe this machine for a submission, and list missing fields.",
        "submit": "Plan, build and check an MLPerf submission.",
    },
    "Extend": {
        "check": "Check a backend or a workload with the conformance kit.",
        "plugin": "Start a package for your own backend or workload.",
        "completion": "Print a script that completes commands in bash, zsh or fish.",
    },
}

COMMANDS = tuple(name for commands in SECTIONS.values() for name in commands)
