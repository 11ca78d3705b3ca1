"""The head of a report explains what is in the report, and nothing else."""

import re

import pytest

from mlbench.discovery import Plugins
from mlbench.reports.html.page import MINI_DATA, html_page
from mlbench.reports.summary import Content, summarise

pytest.importorskip("altair", reason="the extra [report] is not installed")


def text_of(*runs):
    """Return the words of a page before its details."""
    page = html_page(Content(title="nightly", summary=summarise({"": runs})))
    body = page.partition("<body>")[2].partition('id="conditions"')[0]
    return " ".join(re.sub(r"<(style|svg).*?</\1>|<[^>]*>", " ", body, flags=re.DOTALL).split())


def test_the_mini_profile_is_explained_for_the_workloads_of_the_report_alone(a_server_run):
    offline = a_server_run(1, scenario="Offline", profile="mini")
    text = text_of(offline)
    assert (
        "Profile mini: small trained models on small data: real handwritten digits in generated pictures for resnet50."
        in text
    )
    for other in ("retinanet", "stable-diffusion-xl", "generated data"):
        assert other not in text


def test_both_kinds_of_mini_data_are_named_with_their_workloads(a_server_run):
    text = text_of(*(a_server_run(1, workload=name, profile="mini") for name in ("bert", "retinanet", "gptj")))
    assert "in generated pictures for retinanet, generated data for bert and gptj." in text


def test_a_workload_from_outside_has_data_that_is_not_known_here(a_server_run):
    assert "Profile mini: small trained models on small data. " in text_of(
        a_server_run(1, workload="digits", profile="mini")
    )


def test_the_results_of_the_scenarios_in_the_report_are_explained_alone(a_server_run):
    text = text_of(a_server_run(1, scenario="Offline"))
    assert "Offline: throughput." in text
    for other in ("SingleStream:", "MultiStream:", "Server:"):
        assert other not in text


def test_the_result_of_a_scenario_from_outside_is_explained_as_that_of_its_kind(a_server_run):
    run = a_server_run(1, scenario="SingleStream")
    facts = run.scenario_facts.model_copy(update={"percentile": 0.5})
    text = text_of(run.model_copy(update={"scenario": "Burst", "scenario_facts": facts}))
    assert "Burst: 50th percentile latency of a query." in text


def test_each_workload_of_any_round_has_its_mini_data_in_words():
    of_rounds = {name for name, each in Plugins.discover().workloads.items() if isinstance(each.rules, str)}
    assert sorted(name for names in MINI_DATA.values() for name in names) == sorted(of_rounds)
