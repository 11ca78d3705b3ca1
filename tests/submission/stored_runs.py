"""Stored records of real runs, altered to ones of the official setup, with the made logs of `whole_tree`."""

import json
from pathlib import Path

from whole_tree import IMAGES, SCORES, TESTS, WholeTree, detail_of, write

from mlbench.records.run_record import RunRecord

RECORDS = Path(__file__).parents[1] / "data" / "records"
REPLIES = "[\n" + "{}\n" * 10_000 + "]\n"
VALUES = {"SingleStream": 20_000_000, "MultiStream": 160_000_000, "Server": 49.5, "Offline": 1000.0}
TOKENS = {"gptj": (3400.0, 69000.0), "llama2-70b": (2500.0, 3000.0), "mixtral-8x7b": (2500.0, 3000.0)}
"""The results in the made logs: tokens/s in Server and in Offline."""
DETAIL = "mlperf_log_detail.txt"


def value_of(workload, scenario):
    """Return the result in a made log."""
    by_scenario = VALUES | dict(zip(("Server", "Offline"), TOKENS.get(workload, ()), strict=False))
    return by_scenario[scenario]


def read_record(workload, scenario):
    """Return the stored record that is nearest, and the facts of the scenario."""
    names = sorted(
        RECORDS.glob(f"{workload}-*.json"), key=lambda file: (not file.match(f"*-pytorch-{scenario}.json"), file)
    )
    found = [RunRecord.model_validate_json(file.read_text()) for file in names]
    of_scenario = RunRecord.model_validate_json((RECORDS / f"resnet50-pytorch-{scenario}.json").read_text())
    return next(each for each in found if each.accuracy and each.result), of_scenario


def official(scenario, workload="resnet50", **changes):
    """Return a stored run's record as if it had been of the official setup."""
    stored, of_scenario = read_record(workload, scenario)
    return _as_official(stored, of_scenario, scenario, **changes)


def official_on_nodes(scenario, workload="resnet50", kind="network", **changes):
    """Return the record of a stored run that nodes answered, as if it had been of the official setup.

    Those of a network are as if they had been on machines apart.
    """
    (file,) = (RECORDS / "nodes").glob(f"{workload}-*-{scenario}-{kind}.json")
    stored = RunRecord.model_validate_json(file.read_text())
    if kind == "network":
        apart = zip(stored.network.nodes, ("10.0.0.2:4210", "10.0.0.3:4210"), strict=True)
        nodes = [each.model_copy(update={"address": address}) for each, address in apart]
        changes = {"network": stored.network.model_copy(update={"nodes": nodes})} | changes
    return _as_official(stored, stored, scenario, **changes)


def _as_official(stored, of_scenario, scenario, **changes):
    workload = stored.workload
    targets = [each.model_copy(update={"is_met": True}) for each in stored.accuracy.targets]
    accuracy = {"line": SCORES[workload], "tested_in": "", "targets": targets}
    return stored.model_copy(
        update={
            "run_id": f"20261201T000000Z-{workload}-{stored.backend}-{scenario}-full-fp32-valid-0001",
            "scenario": scenario,
            "scenario_facts": of_scenario.scenario_facts,
            "environment": of_scenario.environment,
            "profile": "full",
            "tier": "valid",
            "verdict": stored.verdict.model_copy(update={"is_valid": True, "is_conformant": True}),
            "result": stored.result.model_copy(update={"value": value_of(workload, scenario)}),
            "accuracy": stored.accuracy.model_copy(update=accuracy),
            **changes,
        }
    )


def sut_name(record):
    """Return the name of the system as LoadGen logs it."""
    names = ", ".join(each.node.name for each in record.network.nodes) if record.network else ""
    return f"Network SUT: {names}" if names else "SUT"


def store(results, record):
    """Write a run folder with made logs, and the folders of its compliance tests; return it."""
    folder, scenario, name = results / record.run_id, record.scenario, record.workload
    write(folder / "record.json", record.text())
    for mode, logged in (("performance", "PerformanceOnly"), ("accuracy", "AccuracyOnly")):
        write(folder / mode / DETAIL, detail_of(name, scenario, effective_test_mode=logged, sut_name=sut_name(record)))
        write(folder / mode / "mlperf_log_summary.txt", "A fixture, no result.\n")
    write(folder / "accuracy/mlperf_log_accuracy.json", REPLIES)
    for image in (*(f"{each}.png" for each in IMAGES), "captions.txt") if name == "stable-diffusion-xl" else ():
        write(folder / "accuracy/images" / image, "A fixture.\n")
    for test in TESTS[name]:
        run = f"20261202T000000Z-{name}-{record.backend}-{scenario}-full-fp32-valid-{test}"
        audit = {"run_id": run, "audit": {"test": test, "of": record.run_id}}
        place = results / ".audits" / record.run_id / run
        write(place / "record.json", json.dumps(json.loads(record.text()) | audit))
        WholeTree(results)._add_test(place / test, name, scenario)
    return folder
