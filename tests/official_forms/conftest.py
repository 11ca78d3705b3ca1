import json

import pytest
from invoking import invoke
from scripted_server import ScriptedServer

from mlbench.records.run_record import read


@pytest.fixture(scope="module")
def server():
    running = ScriptedServer()
    yield running
    running.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder of its own, which is all that a run is told."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLBENCH_DATA", str(folder))
        yield folder


@pytest.fixture(scope="module")
def fetch(server, data, tmp_path_factory):
    """Publish a small set and fetch it; return what `mlbench fetch` printed."""

    def run(small_set):
        downloads = tmp_path_factory.mktemp("downloads")
        small_set.publish(server, data, downloads)
        done = invoke("fetch", small_set.workload.name, "--from", downloads)
        assert done.exit_code == 0, done.output
        return done.output

    return run


@pytest.fixture(scope="module")
def fetched(request, fetch, tmp_path_factory):
    """Make the small set of a test module, fetch it, and return what `mlbench fetch` printed."""
    return fetch(request.module.make_small_set(tmp_path_factory.mktemp("made")))


@pytest.fixture
def run_full(data, tmp_path):
    """Run a full profile with nothing but the data folder, and return the record and what was printed."""

    def run(workload, backend, *more, batch=8):
        results = tmp_path / "results"
        arguments = ["run", workload, "--profile", "full", "--backend", backend, "--scenario", "Offline", *more]
        arguments += ["--set", f"execution.batch={batch}"]  # and none is searched
        done = invoke(*arguments, "--results", results, "--json")
        assert done.exit_code == 0, done.stderr
        (run,) = json.loads(done.stdout)
        return read(results / run["run_id"]), done.stderr

    return run
