"""Which backend runs where none is named: by stored records."""

from dataclasses import replace

import pytest

from mlbench import Precision
from mlbench.contracts.backend import Probe
from mlbench.discovery import Plugins
from mlbench.planning.run_plan import RunMatrix, plan_runs
from mlbench.records.environment import observe_environment

LOAD = {"processes": 0.9, "stolen": 0.0}
OVERRIDDEN = {"execution.batch": {"value": 8, "layer": "command line"}}
BF16_FIRST = (Precision.BF16, Precision.FP32)
RANKS = {"onnxruntime": 60, "pytorch": 50, "cpu_amx": 30, "null": -1}


@pytest.fixture
def plugins(monkeypatch):
    """Return what is installed, with backends that may all run."""
    found = Plugins.discover()
    probes = {
        name: Probe(is_available=True, rank=rank, precisions=(*BF16_FIRST,) if name == "cpu_amx" else ("fp32",))
        for name, rank in RANKS.items()
    }
    found = replace(found, backends={name: found.backends[name] for name in RANKS})
    monkeypatch.setattr(Plugins, "probes", lambda self: probes)
    monkeypatch.setattr(Plugins, "probe", lambda self, name: probes[name])
    return found


@pytest.fixture
def store(a_run, tmp_path):
    """Return a function that stores a run of this machine, a minute after the last."""
    made = []

    def store(backend, value, *, higher_is_better=True, **changes):
        run_id = f"20260101T00{len(made):02}00Z-{backend}"
        result = {**a_run().result.model_dump(), "value": value, "higher_is_better": higher_is_better}
        own = {"created": a_run().created.replace(minute=len(made)), "environment": observe_environment().model_dump()}
        run = a_run(**{"run_id": run_id, "backend": backend, "result": result, "settings": {}, **own, **changes})
        folder = tmp_path / run_id
        folder.mkdir()
        (folder / "record.json").write_text(run.text())
        made.append(run)

    return store


@pytest.fixture
def choose(plugins, tmp_path):
    """Return a function that plans runs of ResNet-50, and the backends by scenario."""

    def choose(*scenarios, **matrix):
        fields = {"profile": "mini", "tier": "smoke", "weights": "trained", "overrides": {}, "results": tmp_path}
        names = scenarios or ("Offline",)
        plan = plan_runs(RunMatrix(workloads=("resnet50",), scenarios=names, **fields | matrix), plugins)
        return plan, [request.backend for request in plan.requests]

    return choose


def test_without_an_earlier_run_the_rank_decides(choose):
    plan, backends = choose()
    assert (plan.ranked, plan.faster, backends) == ("onnxruntime", (), ["onnxruntime"])


def test_an_earlier_run_that_was_faster_here_decides(choose, store):
    store("onnxruntime", 100)
    store("pytorch", 150)
    plan, backends = choose()
    assert backends == ["pytorch"]
    assert plan.ranked == "onnxruntime"
    assert [(each.run.backend, each.other.backend, each.ratio) for each in plan.faster] == [
        ("onnxruntime", "pytorch", 1.5)
    ]


def test_each_scenario_is_decided_by_its_own_runs_and_a_shorter_latency_is_faster(choose, store):
    store("onnxruntime", 100)
    store("pytorch", 90)
    for backend, value in (("onnxruntime", 2e6), ("pytorch", 1e6)):
        store(backend, value, higher_is_better=False, scenario="SingleStream")
    assert choose("Offline", "SingleStream")[1] == ["onnxruntime", "pytorch"]


def test_the_newest_run_of_each_counts(choose, store):
    store("onnxruntime", 100)
    store("pytorch", 300)
    store("pytorch", 90)
    assert choose()[1] == ["onnxruntime"]
    store("pytorch", 200)
    store("onnxruntime", 250)
    assert choose()[1] == ["onnxruntime"]


def test_a_newer_run_that_is_no_evidence_hides_no_older_one(choose, store, a_run):
    store("onnxruntime", 100)
    store("pytorch", 150)
    store("pytorch", 50, other_work=LOAD)
    store("pytorch", 50, verdict={**a_run().verdict.model_dump(), "is_accurate": False})
    store("onnxruntime", 500, settings=OVERRIDDEN)
    assert choose()[1] == ["pytorch"]


def test_a_backend_that_is_named_is_taken(choose, store):
    store("onnxruntime", 100)
    store("pytorch", 150)
    plan, backends = choose(backends=("onnxruntime",))
    assert (plan.ranked, plan.faster, backends) == ("", (), ["onnxruntime"])


@pytest.mark.parametrize(
    ("backend", "value", "changes"),
    [
        ("pytorch", 104, {}),
        ("pytorch", 500, {"precision": "bf16"}),
        ("pytorch", 500, {"tier": "dev"}),
        ("pytorch", 500, {"round": "v5.0"}),
        ("pytorch", 500, {"weights": "random"}),
        ("pytorch", 500, {"profile": "full"}),
        ("pytorch", 500, {"workload": "retinanet"}),
        ("pytorch", 500, {"settings": OVERRIDDEN}),
        ("pytorch", 500, {"other_work": LOAD}),
        ("cpu_amx", 500, {}),  # its default precision is another one
        ("null", 1e9, {}),
        ("acme", 500, {}),  # is not installed
    ],
    ids=str,
)
def test_a_run_that_is_no_evidence_does_not_decide(choose, store, backend, value, changes):
    store("onnxruntime", 100)
    store(backend, value, **changes)
    assert choose()[1] == ["onnxruntime"]


@pytest.mark.parametrize("verdict", [{"is_valid": False}, {"is_accurate": False}, {"is_accurate": None}], ids=str)
def test_invalid_inaccurate_and_untested_runs_do_not_decide(choose, store, a_run, verdict):
    store("onnxruntime", 100)
    store("pytorch", 500, verdict={**a_run().verdict.model_dump(), **verdict})
    assert choose()[1] == ["onnxruntime"]


@pytest.mark.parametrize(
    "other",
    [{"tier": "dev"}, {"round": "v5.0"}, {"weights": "random"}, {"profile": "full"}, {"precision": "bf16"}],
    ids=str,
)
def test_runs_of_another_kind_do_not_decide(choose, store, other):
    store("onnxruntime", 100, **other)
    store("pytorch", 500, **other)
    assert choose()[1] == ["onnxruntime"]


def test_runs_of_another_machine_do_not_decide(choose, store):
    other = observe_environment().model_copy(update={"machine": "ffffffffffff"}).model_dump()
    store("onnxruntime", 100, environment=other)
    store("pytorch", 500, environment=other)
    assert choose()[1] == ["onnxruntime"]


def test_no_run_of_the_ranked_backend_shows_nothing(choose, store):
    store("pytorch", 500)
    assert choose()[1] == ["onnxruntime"]


def test_a_precision_that_is_named_is_that_of_the_runs(choose, store):
    for backend, value in (("onnxruntime", 100), ("pytorch", 150)):
        store(backend, value)
    assert choose(precisions=(Precision.FP32,))[1] == ["pytorch"]


@pytest.mark.parametrize("key", ["backend.provider", "workload.weights"])
def test_settings_of_a_backend_or_of_the_users_own_model_leave_it_to_the_rank(choose, store, key):
    store("onnxruntime", 100)
    store("pytorch", 150)
    value = "cpu" if key == "backend.provider" else ""
    assert choose(overrides={"execution.batch": "8"})[1] == ["pytorch"]
    assert choose(overrides={key: value})[1] == ["onnxruntime"]


def test_a_folder_of_which_nothing_can_be_read_leaves_it_to_the_rank(choose, tmp_path):
    (tmp_path / "20260101T000000Z-torn").mkdir()
    (tmp_path / "20260101T000000Z-torn" / "record.json").write_text("{")
    assert choose()[1] == ["onnxruntime"]


def test_a_rate_that_is_sent_makes_none_faster(choose, store):
    for backend, value in (("onnxruntime", 100), ("pytorch", 500)):
        store(backend, value, scenario="Server")
    assert choose("Server")[1] == ["onnxruntime"]
