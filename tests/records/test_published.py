"""Published results: rows counted and spot values read in the official tables."""

import dataclasses
from io import StringIO

import pytest
from rich.console import Console

from mlbench import IncomparableRunsError
from mlbench.records.machine.accelerators import Accelerator
from mlbench.records.published import (
    CLAIMS,
    NVIDIA_TABLES,
    RESULTS,
    compare_rounds,
    list_published_rounds,
    list_rounds,
    load_published,
    merge_variants,
    place_of,
    select_published,
    table,
)
from mlbench.reports.published import build_published_table, place_lines


def test_all_rows_are_there():
    assert len(load_published()) == 937
    assert len(table(NVIDIA_TABLES)) == 70
    assert len(table(CLAIMS)) == 187


def test_a_result_is_as_it_was_published():
    (found,) = [
        each
        for each in select_published(workload="llama2-70b", scenario="Offline", accelerator="B200")
        if each.variant == "99" and each.accelerators == 1
    ]
    assert (found.result_id, found.submitter, found.value, found.unit) == ("4.1-0074", "NVIDIA", 11264.4, "tokens/s")


ROUNDS = {"v5.1": 14, "v6.0": 13}


def test_results_of_later_rounds_are_apart():
    assert list_published_rounds() == ["v4.1", *ROUNDS]
    for name, count in ROUNDS.items():
        assert len(load_published(name)) == count
        assert {each.result_id[:3] for each in load_published(name)} == {name[1:]}
    assert load_published("v9.9") == ()
    assert len(select_published(workload="llama2-70b", scenario="Interactive", round_name="v6.0")) == 1


def test_a_later_result_is_as_it_was_published():
    (found,) = select_published(workload="whisper", round_name="v6.0")
    assert (found.result_id, found.value, found.unit) == ("6.0-0085", 45083.1, "tokens/s")
    (inferred,) = (each for each in load_published("v5.1") if each.inferred_from and each.scenario == "Offline")
    assert (inferred.submitter, inferred.inferred_from, inferred.value) == ("amitashnanda", "SingleStream", 32.0654)


def test_the_best_result_of_an_accelerator_is_set_side_by_side_by_round():
    names = list_published_rounds()
    rows = [each for name in names for each in select_published(workload="llama2-70b", round_name=name)]
    found = next(
        each
        for each in compare_rounds(rows)
        if (each.accelerator, each.scenario) == ("NVIDIA H200-SXM-141GB", "Offline") and "99" in each.variants
    )
    assert {name: best.result_id for name, best in found.best.items()} == {"v4.1": "4.1-0021", "v5.1": "5.1-0048"}
    assert found.best["v5.1"].per_accelerator == 35043.7 / 8
    assert found.change == pytest.approx(35043.7 / 8 / found.best["v4.1"].per_accelerator)


def test_a_lower_latency_is_the_better_one_of_two_rounds_and_v10_comes_after_v9():
    one = next(each for each in load_published("v6.0") if each.scenario == "SingleStream" and each.accelerators == 2)
    values = (("v10.0", 4.0), ("v9.1", 2.0), ("v9.1", 1.0))
    (found,) = compare_rounds([dataclasses.replace(one, value=value, round=name) for name, value in values])
    assert [(name, best.value) for name, best in found.best.items()] == [("v9.1", 1.0), ("v10.0", 4.0)]
    assert list_rounds([found]) == ["v9.1", "v10.0"]
    assert found.change == 0.25


def test_a_value_per_accelerator_is_the_eighth_part_of_eight():
    found = next(each for each in select_published(workload="resnet50", scenario="Offline") if each.accelerators == 8)
    assert found.per_accelerator == found.value / 8


def test_systems_without_accelerators_have_none():
    assert {each.accelerators for each in load_published() if not each.accelerator} == {0}


@pytest.fixture
def official(a_run, environment):
    """Return a run of the official model, data, durations and accuracy, with one accelerator."""

    def official(value=20_000.0, **changes):
        from mlbench.records.machine.accelerators import Accelerator

        device = Accelerator(
            name="A", memory_bytes=1, driver="1", power_limit_w=None, max_clock_mhz=None, ecc=None, mig=None
        )
        fields = {
            "profile": "full",
            "tier": "valid",
            "runtime": {},
            "environment": environment.model_copy(update={"accelerators": [device]}),
            "result": a_run().result.model_dump() | {"value": value},
        }
        return a_run(**fields | changes)

    return official


def test_a_run_faster_than_all_is_first_and_one_slower_than_all_is_last(official):
    closed = [
        each
        for each in select_published(workload="resnet50", scenario="Offline")
        if each.division == "closed" and each.accelerators
    ]
    first, last = place_of(official(value=1e9)), place_of(official(value=0.001))
    assert (first.rank, first.of) == (1, len(closed) + 1)
    assert (last.rank, last.of) == (len(closed) + 1, len(closed) + 1)
    assert first.worse[0].per_accelerator == max(each.per_accelerator for each in closed)
    assert last.better[-1].per_accelerator == min(each.per_accelerator for each in closed)


def test_a_lower_latency_is_a_better_place(official, a_run):
    result = a_run().result.model_dump() | {"unit": "ns", "higher_is_better": False}
    fast, slow = (
        place_of(official(scenario="SingleStream", result=result | {"value": value})) for value in (1.0, 1e12)
    )
    assert fast.rank == 1
    assert slow.rank == slow.of


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"profile": "mini"}, "mini profile"),
        ({"weights": "random"}, "its weights are random"),
        ({"tier": "smoke"}, "it is of tier smoke"),
        ({"workload": "digits"}, "nothing was published for digits Offline"),
    ],
)
def test_a_run_that_is_not_like_the_official_ones_has_no_place_and_the_reason_is_given(official, change, reason):
    with pytest.raises(IncomparableRunsError, match=reason):
        place_of(official(**change))


def test_a_run_is_placed_within_its_own_round(official):
    with pytest.raises(IncomparableRunsError, match="nothing was published for resnet50 Offline of accuracy"):
        place_of(official(round="v6.1"))


def test_an_invalid_or_inaccurate_run_has_no_place(official, a_run):
    verdict = a_run().verdict.model_dump()
    with pytest.raises(IncomparableRunsError, match="it is INVALID"):
        place_of(official(verdict=verdict | {"is_valid": False}))
    with pytest.raises(IncomparableRunsError, match="it misses its accuracy target"):
        place_of(official(verdict=verdict | {"is_accurate": False}))


# the accuracy variant


def targets_of(*met):
    """Return the accuracy of a run with a target per variant."""
    targets = [
        {
            "score": "F1",
            "name": name,
            "reference": 90.874,
            "lower": 89.9,
            "upper": None,
            "value": 90.5,
            "is_met": is_met,
        }
        for name, is_met in met
    ]
    return {
        "scores": {"F1": 90.5},
        "targets": [{**each, "required": not place} for place, each in enumerate(targets)],
        "line": "",
        "is_met": True,
    }


def closed(workload, scenario, variant):
    """Return the published closed results on accelerators, by hand."""
    return [
        row
        for row in table(RESULTS)
        if (row["division"], row["benchmark"], row["scenario"], row["accuracy_variant"])
        == ("closed", workload, scenario, variant)
        and row["accelerators_per_node"].isdecimal()
        and int(row["accelerators_per_node"])
    ]


def test_a_run_is_ranked_among_results_of_its_accuracy_and_a_run_for_both_counts_once(official):
    for variant, others in (("99", 37), ("99.9", 24)):
        assert len(closed("bert", "Offline", variant)) == others
    run = official(workload="bert", accuracy=targets_of(("99", True), ("99.9", True)))
    place, strict = place_of(run), place_of(run, variant="99.9")
    assert (place.variant, place.of) == ("99", 38)
    assert (strict.variant, strict.of) == ("99.9", 25)
    assert {each.variant for each in (*place.better, *place.worse)} == {"99"}
    assert {each.variant for each in (*strict.better, *strict.worse)} == {"99.9"}


def test_a_run_that_misses_the_stricter_accuracy_has_no_place_there(official):
    run = official(workload="bert", accuracy=targets_of(("99", True), ("99.9", False)))
    with pytest.raises(IncomparableRunsError, match="it misses that target"):
        place_of(run, variant="99.9")
    with pytest.raises(IncomparableRunsError, match="bert has no accuracy variant '98'"):
        place_of(run, variant="98")


def test_a_run_that_was_submitted_for_both_accuracies_is_listed_once():
    both = [
        each
        for each in select_published(workload="gptj", scenario="Offline")
        if each.system_id.endswith("141GBx8_TRT_MaxQ")
    ]
    assert [each.variant for each in both] == ["99", "99.9"]
    ((found, variants),) = merge_variants(both)
    assert (found.value, variants) == (13096.6, "99, 99.9")
    closed_bert = select_published(workload="bert", scenario="Offline", submitter="Intel")
    assert len(merge_variants(closed_bert)) == len(closed_bert)


# accelerators


def device(name="A"):
    return Accelerator(
        name=name, memory_bytes=1, driver="1", power_limit_w=None, max_clock_mhz=None, ecc=None, mig=None
    )


@pytest.mark.parametrize(
    ("has", "runtime", "instances", "settings", "used"),
    [
        (1, {}, None, {}, 1),
        (8, {"device": "A"}, None, {}, 1),  # seven of eight were idle
        (8, {"device": "A"}, 4, {}, 4),
        (2, {"device": "A"}, 4, {}, 2),
        (8, {"device": "A"}, 4, {"backend.device": {"value": "cuda:0", "layer": "command line"}}, 1),
        (8, {"device": "A"}, 4, {"backend.device": {"value": "cuda", "layer": "command line"}}, 4),
        (8, {"device": "A", "devices": 8}, None, {}, 8),
        (0, {"device": "AMD Instinct MI300X"}, None, {}, 1),  # no tool of its maker here
    ],
)
def test_a_rate_is_divided_by_the_accelerators_that_were_used(  # noqa: PLR0917 - one per column
    official, environment, has, runtime, instances, settings, used
):
    run = official(
        value=1000.0,
        runtime=runtime,
        engine={} if instances is None else {"instances": instances},
        settings=settings,
        environment=environment.model_copy(update={"accelerators": [device()] * has}),
    )
    place = place_of(run)
    assert (place.accelerators, place.per_accelerator) == (used, 1000 / used)


@pytest.mark.parametrize(
    ("has", "files", "runtime", "reason"),
    [
        (8, [], {"device": "cpu"}, "on the CPU of a machine with accelerators"),
        (0, ["/dev/kfd"], {"device": "cpu"}, "on the CPU of a machine with accelerators"),
        (0, ["/dev/kfd", "/dev/dri/renderD128"], {}, "does not say how many of the machine's accelerators"),
        (0, ["/dev/nvidia0"], {}, "does not say how many"),
        (8, [], {}, "does not say how many"),
        (0, [], {"devices": None}, "does not report its device"),
    ],
)
def test_a_machine_with_accelerators_is_never_ranked_among_cpus(  # noqa: PLR0917 - one per column
    official, environment, has, files, runtime, reason
):
    machine = environment.model_copy(update={"accelerators": [device()] * has, "devices": files})
    with pytest.raises(IncomparableRunsError, match=reason):
        place_of(official(runtime=runtime, environment=machine))


def by_instance(*devices):
    return {
        "instances": len(devices),
        "by_instance": [{"processors": [0], "device": each, "samples": 1} for each in devices],
    }


@pytest.mark.parametrize(
    ("devices", "runtime", "used"), [(("0", "1", "0", "1"), {}, 2), (("3", "3"), {"device": "A"}, 1)]
)
def test_devices_that_were_named_are_those_that_were_used(official, environment, devices, runtime, used):
    machine = environment.model_copy(update={"accelerators": [device()] * 8})
    place = place_of(official(value=1000.0, runtime=runtime, engine=by_instance(*devices), environment=machine))
    assert place.accelerators == used


def test_slices_are_not_ranked_among_whole_accelerators(official, environment):
    machine = environment.model_copy(update={"accelerators": [device()]})
    with pytest.raises(IncomparableRunsError, match=r"it used 2 slices of GPUs \(MIG\)"):
        place_of(official(engine=by_instance("MIG-a", "MIG-b"), environment=machine))


def test_a_cpu_is_ranked_among_systems_without_accelerators(official, environment):
    machine = environment.model_copy(update={"accelerators": [], "devices": ["/dev/dri/renderD128"]})
    place = place_of(official(value=1e9, runtime={"device": "cpu"}, environment=machine))
    rows = [
        row
        for row in table(RESULTS)
        if (row["division"], row["benchmark"], row["scenario"]) == ("closed", "resnet", "Offline")
        and row["accelerators_per_node"] in ("0", "N/A")
    ]
    assert (place.rank, place.of, place.accelerators, place.per_accelerator) == (1, len(rows) + 1, 0, 1e9)


# imported runs


def submitted(path, **description):
    division, submitter, _, system, _, _ = path.split("/")
    return {
        "path": path,
        "log_sha256": "",
        "division": division,
        "submitter": submitter,
        "system": system,
        "variant": "99",
        "description": {"system_name": "S", **description},
    }


def test_a_published_run_is_not_ranked_against_itself(official, environment):
    path = "closed/NVIDIA/results/H200-SXM-141GBx8_TRT_MaxQ/resnet50/Offline"
    eight = environment.model_copy(update={"accelerators": [device()] * 8})
    others = len(closed("resnet", "Offline", "99"))
    same = place_of(official(value=556234.0, environment=eight, imported=submitted(path)))
    faster = place_of(official(value=556235.0, environment=eight, imported=submitted(path)))
    assert (same.of, faster.of) == (others, others + 1)


def test_a_submission_whose_accelerators_are_not_counted_has_no_place(official, environment):
    path, none = "closed/A/results/b/resnet50/Offline", environment.model_copy(update={"accelerators": []})
    run = official(environment=none, imported=submitted(path, accelerator_model_name="Anvil A1"))
    with pytest.raises(IncomparableRunsError, match="its system has Anvil A1, and does not say how many"):
        place_of(run)
    assert (
        place_of(official(environment=none, imported=submitted(path, accelerator_model_name="N/A"))).accelerators == 0
    )


def test_a_result_of_the_open_division_has_no_place_among_closed_ones(official):
    run = official(imported=submitted("open/A/results/b/resnet50/Offline"))
    with pytest.raises(IncomparableRunsError, match="open division"):
        place_of(run)


# previews


def test_previews_are_marked_in_lists_and_places(official):
    (preview,) = [
        each
        for each in select_published(workload="llama2-70b", scenario="Offline", accelerator="B200")
        if each.variant == "99" and each.accelerators == 1
    ]
    assert preview.is_preview
    result = official().result.model_dump() | {"unit": "tokens/s", "value": 11000.0}
    lines = list(place_lines(place_of(official(workload="llama2-70b", result=result))))
    (line,) = [line for line in lines if "4.1-0074" in line]
    assert "NVIDIA" in line
    assert "(preview)" in line
    assert sum("(preview)" in line for line in lines) < len(lines) - 4
    console = Console(width=200, record=True, file=StringIO())
    console.print(build_published_table([preview]))
    assert "preview" in console.export_text()
