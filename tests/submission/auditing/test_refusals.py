"""Runs that cannot be audited: one line, exit status 2, and no test is made."""

import pytest
from invoking import invoke, refusal


@pytest.fixture
def refused(a_run, tmp_path):
    """Return a function that audits a run of tier valid with changes to its record, and returns what it prints."""

    def refused(changes, *options):
        folder = tmp_path / "results" / a_run().run_id
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(a_run(**{"tier": "valid", **changes}).text())
        line = refusal(invoke("audit", folder, *options))
        assert not (folder.parent / ".audits").exists()
        return line

    return refused


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tier": "smoke"}, "is of tier smoke"),
        ({"tier": "dev"}, "is of tier dev"),
        ({"accuracy": None}, "has no accuracy test"),
        ({"audit": {"test": "TEST04", "of": "another"}}, "is itself TEST04 of another"),
    ],
    ids=["of smoke", "of dev", "without accuracy", "a test itself"],
)
def test_a_run_that_cannot_be_audited_is_refused(refused, changes, reason):
    assert reason in refused(changes, "--test", "TEST01")


def test_an_invalid_run_is_refused_with_the_rules_of_its_performance(refused, a_run):
    verdict = a_run().verdict.model_dump()
    broken = [
        each | {"passed": each["rule"] != "loadgen_result" and each["kind"] == "performance"}
        for each in verdict["rules"]
    ]
    assert {each["kind"] for each in broken if not each["passed"]} == {"performance", "accuracy"}
    assert "is INVALID by loadgen_result." in refused({"verdict": verdict | {"is_valid": False, "rules": broken}})


def test_a_run_that_owes_none_and_a_test_that_does_not_fit_are_refused(refused):
    assert "gptj requires no compliance test at v4.1" in refused({"workload": "gptj"})


def test_the_test_of_tokens_is_refused_where_there_are_none(refused):
    assert "TEST06 needs tokens, but" in refused({}, "--test", "TEST06")


def test_a_variant_that_the_workload_has_not_is_refused(refused):
    assert "resnet50 has no variant 99.9. It has: 99." in refused({}, "--variant", "99.9")


def test_a_variant_that_the_run_misses_is_refused(refused, a_run):
    accuracy = a_run().accuracy.model_dump()
    missed = accuracy["targets"][0] | {"name": "99.9", "required": False, "is_met": False}
    changes = {"accuracy": accuracy | {"targets": [*accuracy["targets"], missed]}}
    assert "misses 99.9 in acc" in refused(changes, "--variant", "99.9")


def test_a_run_of_another_machine_is_refused(refused, a_run):
    environment = a_run().environment.model_dump() | {"machine": "0123456789ab"}
    assert "was made on " in refused({"environment": environment}, "--test", "TEST01")


def test_a_run_that_was_imported_is_refused(refused):
    imported = {
        **{"path": "closed/Acme", "log_sha256": "", "division": "closed", "submitter": "Acme", "system": "one"},
        **{"variant": "99", "description": {}},
    }
    assert "was imported: its engine is not here" in refused({"imported": imported}, "--test", "TEST01")
