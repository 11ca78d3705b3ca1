"""Which facts two sides must share, and which may differ."""

import pytest

from mlbench import IncomparableRunsError, UsageError
from mlbench.comparison.compare import compare
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.records.kinds import kind_of

STEADY = [100, 101, 99, 100, 100]


@pytest.mark.parametrize(
    ("fact", "change"),
    [
        ("backend", {"backend": "onnxruntime"}),
        ("tier", {"tier": "dev"}),
        ("profile", {"profile": "full"}),
        ("precision", {"precision": "int8"}),
        ("settings", {"settings": {"execution.batch": {"value": 8, "layer": "command line"}}}),
        ("data", {"fingerprints": {"data": "other"}}),
        ("model", {"fingerprints": {"weights": "other"}}),
        ("seeds", {"seeds": {"qsl": 1, "sample_index": 2, "schedule": 3}}),
        ("loadgen", {"loadgen_version": "other"}),
        ("compiled", {"runtime": {"device": "cpu", "compiled": "prefill, decode"}}),
    ],
)
def test_a_fact_that_must_match_refuses_unless_compared_across(runs, fact, change, compare_after_quiet_nights):
    if "fingerprints" in change:
        change = {"fingerprints": {**runs(STEADY)[0].fingerprints, **change["fingerprints"]}}
    base, new = runs(STEADY), runs(STEADY, **change)
    with pytest.raises(IncomparableRunsError, match=rf"{fact} differs: .* --across {fact}"):
        compare_after_quiet_nights(base, new)
    comparison = compare_after_quiet_nights(base, new, across=[fact])
    (cell,) = comparison.cells
    assert [judged.verdict for judged in cell.speeds] == [SpeedVerdict.SAME]
    assert fact in {difference.fact for difference in cell.differences}


def test_other_hardware_refuses(runs, environment):
    cpu = environment.cpu.model_copy(update={"model": "Another"})
    other = environment.model_copy(update={"cpu": cpu})
    with pytest.raises(IncomparableRunsError, match=r"hardware differs: .*Another"):
        compare(runs(STEADY), runs(STEADY, environment=other))


def test_library_versions_may_differ_and_are_listed(runs, environment):
    older = environment.model_copy(update={"libraries": {"torch": "2.9.0"}})
    newer = environment.model_copy(update={"libraries": {"torch": "2.15.0"}})
    (cell,) = compare(runs(STEADY, environment=older), runs(STEADY, environment=newer)).cells
    assert "torch differs: 2.9.0, then 2.15.0" in map(str, cell.differences)


def test_a_side_that_mixes_hardware_refuses(runs, environment):
    other = environment.model_copy(update={"machine": "another"})
    with pytest.raises(IncomparableRunsError, match="the new side mixes runs of different hardware"):
        compare(runs(STEADY), [*runs(STEADY), *runs(STEADY, environment=other)])


def test_an_unknown_fact_is_refused(runs):
    with pytest.raises(UsageError, match="unknown fact 'colour'"):
        compare(runs(STEADY), runs(STEADY), across=["colour"])


@pytest.mark.parametrize("layer", ["suite", "command line", "system /etc/mlbench.toml"])
def test_what_a_person_set_separates_runs_whatever_the_file(runs, layer):
    changed = runs(STEADY, settings={"execution.batch": {"value": 8, "layer": layer}})
    with pytest.raises(IncomparableRunsError, match=r"settings differs: .*32.*, then .*8.* --across settings"):
        compare(runs(STEADY, settings={"execution.batch": {"value": 32, "layer": "command line"}}), changed)


@pytest.mark.parametrize("layer", ["workload resnet50", "backend pytorch", "scenario Offline"])
def test_what_a_plugin_tunes_must_match_and_follows_a_backend_that_is_compared_across(runs, layer):
    def tuned(value, **changes):
        return runs(STEADY, settings={"execution.batch": {"value": value, "layer": layer}}, **changes)

    with pytest.raises(IncomparableRunsError, match=r"tuning differs: .*16.*, then .*32.* --across tuning"):
        compare(tuned(16), tuned(32))
    for across, new in (("tuning", tuned(32)), ("backend", tuned(32, backend="onnxruntime"))):
        (cell,) = compare(tuned(16), new, across=[across]).cells
        assert "tuning" in {difference.fact for difference in cell.differences}


def test_defaults_that_changed_separate_nothing(runs):
    by_default = {"execution.batch": {"value": 8, "layer": "default"}}
    assert len(compare(runs(STEADY, settings={}), runs(STEADY, settings=by_default)).cells) == 1


def test_a_cpu_quota_is_other_hardware(runs, environment):
    limited = environment.model_copy(update={"allowance": environment.allowance.model_copy(update={"cpu_quota": 2.0})})
    with pytest.raises(IncomparableRunsError, match=r"hardware differs: .*quota 2.*--across hardware"):
        compare(runs(STEADY), runs(STEADY, environment=limited))


def test_the_image_and_commits_may_differ_and_are_listed(runs, environment):
    def built(image, commit):
        allowance = environment.allowance.model_copy(update={"container": "podman", "image": image})
        commits = {"mlbench": "a" * 40, "acme-backend": commit}
        return runs(STEADY, environment=environment.model_copy(update={"allowance": allowance, "commits": commits}))

    (cell,) = compare(built("acme:1", "b" * 40), built("acme:2", "c" * 40)).cells
    assert {
        "image differs: acme:1, then acme:2",
        f"commit of acme-backend differs: {'b' * 12}, then {'c' * 12}",
    } == set(map(str, cell.differences))


def test_a_number_of_processes_that_runs_chose_may_differ_and_is_listed(runs):
    (cell,) = compare(runs(STEADY, engine={"batch": 8}), runs(STEADY, engine={"batch": 8, "instances": 2})).cells
    assert list(map(str, cell.differences)) == ["instances differs: 1, then 2"]


def at_url(url, **others):
    values = {"backend.url": url, **others}
    return {key: {"value": value, "layer": "command line"} for key, value in values.items()}


def test_a_setting_that_is_compared_across_may_differ_and_is_listed(runs):
    base = runs(STEADY, settings=at_url("http://one", **{"backend.connections": 4}))
    new = runs(STEADY, settings=at_url("http://two", **{"backend.connections": 4}))
    with pytest.raises(IncomparableRunsError, match="settings differs"):
        compare(base, new)
    (cell,) = compare(base, new, across=["backend.url"]).cells
    assert [str(each) for each in cell.differences] == ["backend.url differs: http://one, then http://two"]


def test_the_other_settings_must_still_be_the_same(runs):
    base = runs(STEADY, settings=at_url("http://one", **{"backend.connections": 4}))
    new = runs(STEADY, settings=at_url("http://two", **{"backend.connections": 8}))
    with pytest.raises(IncomparableRunsError, match="connections"):
        compare(base, new, across=["backend.url"])


def test_one_side_may_have_measured_its_perplexity_after_the_tests(runs):
    base = runs(STEADY, settings=at_url("http://one", **{"workload.perplexity": True}))
    assert not compare(base, runs(STEADY, settings=at_url("http://one"))).cells[0].differences


def test_when_a_run_that_became_invalid_would_have_ended_may_differ(runs):
    base = runs(STEADY, settings=at_url("http://one", **{"load.end_at_late_share": 0.0057}))
    new = runs(STEADY, settings=at_url("http://one"))
    (cell,) = compare(base, new).cells
    assert not cell.differences
    assert kind_of(base[0]) == kind_of(new[0])


@pytest.mark.parametrize("name", ["weather", "weather.rain", "backend."])
def test_what_is_neither_a_fact_nor_a_setting_is_refused(runs, name):
    with pytest.raises(UsageError, match="unknown fact"):
        compare(runs(STEADY), runs(STEADY), across=[name])
