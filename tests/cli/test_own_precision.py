"""A backend from outside offers a precision that mlbench has no name for: invoke, record, comparison and report."""

import json
from pathlib import Path

import pytest
from invoking import invoke, refusal

pytest.importorskip("torch")
PLUGIN = Path(__file__).parents[1] / "data" / "awq_plugin"


@pytest.fixture(autouse=True)
def awq_plugin(monkeypatch):
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("run", "awq does not offer precision mxfp4. It offers: fp32, int4-awq."),
        ("check", "awq does not offer mxfp4. It offers: fp32, int4-awq."),
    ],
)
def test_a_precision_that_the_backend_does_not_offer_is_refused_with_those_it_offers(command, line, tmp_path):
    words = ["awq"] if command == "check" else ["resnet50", "--backend", "awq", "--results", tmp_path]
    done = invoke(command, *words, "--precision", "mxfp4")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert line in done.stderr


def test_what_is_no_name_is_refused_in_a_line_that_says_what_one_is():
    line = refusal(invoke("run", "resnet50", "--precision", "INT4 AWQ"))
    assert "'INT4 AWQ' is not the name of a precision: lower-case letters and digits" in line


def test_the_list_of_backends_has_it():
    (backend,) = [each for each in json.loads(invoke("list", "--json").stdout)["backends"] if each["name"] == "awq"]
    assert backend["precisions"] == ["fp32", "int4-awq"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Run a workload in both precisions; return the folder of results and what was printed."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGIN))
        patch.setenv("PYTHONPATH", str(PLUGIN))
        choices = ("--precision", "fp32", "--precision", "int4-awq", "--power", "none")
        short = ("--set", "load.min_duration_ms=200", "--set", "execution.batch=8")
        request = ("resnet50", "--backend", "awq", "--scenario", "Offline", *choices, *short)
        done = invoke("run", *request, "--results", folder)
    return folder, done


@pytest.fixture
def records(swept):
    """Return both records, by precision."""
    read = [json.loads(file.read_text()) for file in swept[0].glob("*/record.json")]
    return {each["precision"]: each for each in read}


@pytest.mark.thorough("workloads")
def test_the_sweep_shows_speed_memory_and_accuracy_side_by_side(swept):
    lines = swept[1].stdout.splitlines()
    table = lines[next(place for place, line in enumerate(lines) if line.startswith("precisions ")) :]
    assert any("int4-awq" in line and "GiB" in line for line in table), swept[1].stdout


@pytest.mark.thorough("workloads")
def test_the_record_keeps_its_name_and_what_it_stores_and_computes_in(records):
    own = records["int4-awq"]
    assert own["number_format"] == {"stores": "int4", "computes": "fp32"}
    assert "-int4-awq-" in own["run_id"]
    assert own["verdict"]["not_applied"]["output_difference"] == "no bound is known for int4-awq"
    assert records["fp32"]["number_format"] is None
    assert "output_difference" not in records["fp32"]["verdict"]["not_applied"]


@pytest.mark.thorough("workloads")
def test_precisions_are_compared_only_when_asked_to_be(swept, records):
    ids = [records[name]["run_id"] for name in ("fp32", "int4-awq")]
    refused = invoke("compare", *ids, "--results", swept[0])
    assert refused.exit_code == 1
    assert "precision differs: fp32, then int4-awq" in refused.stderr
    assert "number_format differs: by its name, then stores int4, computes fp32" in refused.stderr
    asked = invoke("compare", *ids, "--results", swept[0], "--across", "precision")
    assert "differs" not in asked.stderr
    assert "int4-awq" in asked.stdout


@pytest.mark.thorough("workloads")
def test_the_report_and_the_query_show_it(swept, tmp_path):
    done = invoke("report", "--results", swept[0], "-o", tmp_path / "runs.html")
    assert done.exit_code == 0, done.stderr
    assert "int4-awq" in (tmp_path / "runs.html").read_text()
    found = invoke("query", "SELECT precision FROM runs WHERE precision LIKE 'int4%'", "--results", swept[0])
    assert "int4-awq" in found.stdout
