"""The kit for workloads passes a sound one, and names what is wrong with a broken one."""

import dataclasses
import importlib
import itertools
import sys

import pytest
from invoking import invoke

from mlbench.conformance import workload_subject
from mlbench.conformance.workload_checks import WORKLOAD_CHECKS
from mlbench.conformance.workload_subject import WorkloadSubject, WorkloadTrial
from mlbench.discovery import Plugins
from mlbench.errors import ConformanceError

NAMES = [check.__name__ for check in WORKLOAD_CHECKS]
MISSES = [name for name in NAMES if name.startswith("misses")]
IN_PROCESS = NAMES[1:]
"""All but the one that starts processes, which see what is installed alone."""


@pytest.fixture(scope="module")
def new_package(tmp_path_factory):
    """Return the folder of a package that was just begun, and whose module can be imported."""
    pytest.importorskip("torch")
    parent = tmp_path_factory.mktemp("new")
    assert invoke("plugin", "new", "--workload", "my-task", "--into", parent).exit_code == 0
    folder = parent / "mlbench_my_task"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        importlib.import_module("mlbench_my_task")
        yield folder
    for name in [name for name in sys.modules if name.startswith("mlbench_my_task")]:
        del sys.modules[name]


@pytest.fixture
def failed(new_package):
    """Return a function that gives the names and reasons of checks that a changed workload fails."""

    def check(**changes):
        plugins = Plugins.discover()
        base = importlib.import_module("mlbench_my_task.workload").MyTask
        kind = type("Changed", (base,), {"__module__": base.__module__, **changes})
        subject = WorkloadSubject(
            trial=WorkloadTrial(kind(), plugins.backend("pytorch"), {}), null=plugins.backend("null"), timeout_s=60.0
        )
        found = {}
        for each in WORKLOAD_CHECKS[1:]:
            try:
                each(subject)
            except ConformanceError as error:
                found[each.__name__] = error.message
        return found

    return check


def a_metric(new_package, **changes):
    """Return what builds the package's metric with other methods."""
    kind = importlib.import_module("mlbench_my_task.accuracy").Accuracy
    changed = type("Changed", (kind,), changes)
    return lambda self, variant, profile, dataset, targets: changed(dataset.labels, targets)


def test_a_new_workload_passes(failed):
    assert failed() == {}


def test_a_metric_that_is_always_content_fails_every_kind_of_damage(failed, new_package):
    found = failed(build_metric=a_metric(new_package, score=lambda self, replies: {"acc": 98.2}))
    assert [*found] == ["refuses_cut_replies", "refuses_empty_replies", *MISSES]
    assert found["misses_with_zeroed_weights"] == "the target is met all the same: acc 98.2 (at least 97.218)."


def test_a_target_that_is_too_low_lets_some_wrong_answers_pass(failed, new_package):
    def build(self, variant, profile, dataset, targets):
        low = tuple(dataclasses.replace(each, lower=85.0) for each in targets)
        return importlib.import_module("mlbench_my_task.accuracy").Accuracy(dataset.labels, low)

    assert [*failed(build_metric=build)] == ["misses_with_a_tenth_exchanged"]


def test_a_workload_without_a_target_is_told_so(failed, new_package):
    def build(self, variant, profile, dataset, targets):
        return importlib.import_module("mlbench_my_task.accuracy").Accuracy(dataset.labels, ())

    assert failed(build_metric=build)["misses_with_exchanged_answers"].endswith("there is no target.")


def test_replies_that_depend_on_earlier_calls_are_not_stable(failed, new_package):
    kind = importlib.import_module("mlbench_my_task.program").Classification
    calls = itertools.count()

    class Moody(kind):
        def run(self, samples, graphs):
            return (super().run(samples, graphs) + (next(calls) > 40)) % 4

    found = failed(build_program=lambda self, variant, profile, graphs: Moody())
    assert "change with the batch" in found["gives_stable_replies"]


def test_a_score_that_goes_by_the_order_of_replies_is_found(failed, new_package):
    def score(self, replies):
        right = sum(self._is_right(dataclasses.replace(each, index=number)) for number, each in enumerate(replies))
        return {"acc": 100 * right / len(replies)}

    found = failed(build_metric=a_metric(new_package, score=score))
    assert found["scores_replies_in_any_order"] == "scores depend on the order of replies: acc."


def test_each_answer_is_a_sign_of_life_though_all_of_them_take_longer_than_a_check_may(new_package, monkeypatch):
    monkeypatch.setattr(workload_subject, "REPORT_PERIOD_S", 0.0)
    plugins = Plugins.discover()
    workload = importlib.import_module("mlbench_my_task.workload").MyTask()
    signs = []
    trial = WorkloadTrial(workload, plugins.backend("pytorch"), {})
    subject = WorkloadSubject(trial=trial, null=plugins.backend("null"), on_compiled=lambda: signs.append("sign"))
    answers = subject.trial.answer(batch=1)
    assert len(signs) == len(answers) + 1  # the engine is ready, and a call of the engine for each sample


@pytest.fixture(scope="module")
def installed(new_package, tmp_path_factory, pip_install):
    """Return the folder that the package is installed in."""
    target = tmp_path_factory.mktemp("installed")
    pip_install(new_package, target)
    return target


@pytest.fixture
def check_installed(installed, monkeypatch):
    """Return a function that changes the dataset of the installed package, and checks it by the command line."""
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setenv("PYTHONPATH", str(installed))
    dataset = installed / "mlbench_my_task" / "dataset.py"
    sound = dataset.read_text()

    def check(old, new):
        assert old in sound
        dataset.write_text(sound.replace(old, new))
        return invoke("check", "my-task")

    yield check
    dataset.write_text(sound)


@pytest.mark.slow
def test_an_installed_workload_passes_all_checks(check_installed):
    done = check_installed("RandomState(0)", "RandomState(0)")
    assert done.stdout.splitlines()[-1] == f"my-task: {len(NAMES)} of {len(NAMES)} checks passed."
    assert done.exit_code == 0


@pytest.mark.slow
def test_data_that_is_another_in_each_process_is_found(check_installed):
    line = "self._points, self.labels = points(HELD_OUT)\n"
    done = check_installed(line, f"{line}        self._points += np.float32(hash('a') % 1000)\n")
    assert "FAILED  prepares_the_same_each_time" in done.stdout
    assert "a second preparation differs: data_fingerprint is" in done.stdout
    assert done.exit_code == 1


@pytest.mark.thorough("kit")
def test_a_dataset_that_ends_the_process_fails_the_check_it_happens_in(check_installed):
    done = check_installed(
        "        self._points, self.labels", "        __import__('os')._exit(3)\n        self._points, self.labels"
    )
    assert "a process that prepares the workload ended with 3" in done.stdout
    assert f"my-task: 0 of {len(NAMES)} checks passed." in done.stdout
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["resnet5"], "unknown backend 'resnet5'."),
        (["resnet50", "--precision", "int8"], "resnet50 is a workload, and workloads are checked in fp32."),
        (["resnet50", "--set", "workload.dat=x"], "unknown setting 'workload.dat'"),
    ],
)
def test_a_check_that_cannot_be_made_is_told_in_one_line(arguments, told):
    done = invoke("check", *arguments)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert told in done.stderr
