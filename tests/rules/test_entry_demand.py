"""What an entry of a submission demands: expected values are from the rules' tables, "Benchmarks" and "Categories"."""

import pytest

from mlbench.contracts.metric import OutputDifference, Target
from mlbench.errors import UsageError
from mlbench.rules.entry_demand import ANY_ENTRY, Division, EntryDemand, demanded_targets
from mlbench.rules.official import Category, default_round, official_rules
from mlbench.rules.verdict import judge

F1 = [
    Target.at_least("F1", 89.96, reference=90.874, name="99"),
    Target.at_least("F1", 90.78, reference=90.874, name="99.9", required=False),
]


def settled(name, **asked):
    return EntryDemand(**asked).settle(name, official_rules(name))


@pytest.mark.parametrize("name", default_round().rows)
def test_who_asks_for_nothing_gets_nothing_more(name):
    assert settled(name) == ANY_ENTRY
    assert ANY_ENTRY.scenarios(official_rules(name)) == official_rules(name).scenarios


@pytest.mark.parametrize(
    ("name", "asked", "model"),
    [
        ("bert", {"variant": "99.9"}, "bert-99.9"),
        ("bert", {"category": Category.EDGE}, "bert-99"),
        ("3d-unet", {"variant": "99.9", "category": Category.EDGE}, "3d-unet-99.9"),
        ("gptj", {"variant": "99.9", "category": Category.EDGE}, "gptj-99.9"),
        ("dlrm-v2", {"division": Division.OPEN}, "dlrm-v2-99"),
        ("llama2-70b", {"variant": "99.9", "category": Category.DATACENTER}, "llama2-70b-99.9"),
        ("resnet50", {"variant": "99"}, "resnet50"),
        ("mixtral-8x7b", {"category": Category.DATACENTER}, "mixtral-8x7b"),
        ("stable-diffusion-xl", {"category": Category.EDGE}, "stable-diffusion-xl"),
    ],
)
def test_an_entry_has_the_name_that_a_submission_gives_its_model(name, asked, model):
    assert settled(name, **asked).model(official_rules(name)) == model


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("resnet50", {"variant": "99.9"}, "resnet50 has no accuracy variant 99.9."),
        ("bert", {"variant": "99.9", "category": Category.EDGE}, "bert has no accuracy variant 99.9 in edge."),
        ("dlrm-v2", {"category": Category.EDGE}, "dlrm-v2 is not a workload of edge systems."),
        ("llama2-70b", {"category": Category.EDGE}, "llama2-70b is not a workload of edge systems."),
        ("bert", {"variant": "98"}, "bert has no accuracy variant 98."),
    ],
)
def test_an_entry_that_does_not_exist_is_refused_by_name(name, asked, said):
    with pytest.raises(UsageError, match=said.replace(".", r"\.")) as error:
        settled(name, **asked)
    assert error.value.hint


@pytest.mark.parametrize(
    ("name", "category", "scenarios"),
    [
        ("resnet50", Category.EDGE, {"SingleStream", "MultiStream", "Offline"}),
        ("resnet50", Category.DATACENTER, {"Server", "Offline"}),
        ("bert", Category.EDGE, {"SingleStream", "Offline"}),
        ("3d-unet", Category.DATACENTER, {"Offline"}),
        ("stable-diffusion-xl", Category.EDGE, {"SingleStream", "Offline"}),
    ],
)
def test_a_category_requires_its_scenarios(name, category, scenarios):
    assert set(EntryDemand(category=category).scenarios(official_rules(name))) == scenarios


def test_the_targets_of_the_variant_are_required_and_no_others():
    assert [each.required for each in demanded_targets(F1, "", Division.CLOSED)] == [True, False]
    assert [each.required for each in demanded_targets(F1, "99", Division.CLOSED)] == [True, False]
    assert [each.required for each in demanded_targets(F1, "99.9", Division.CLOSED)] == [False, True]
    assert not any(each.required for each in demanded_targets(F1, "99", Division.OPEN))


def test_a_score_between_two_variants_is_accurate_for_the_one_and_not_for_the_other(facts_of):
    between = {"scores": {"F1": 90.5}}
    found = {
        variant: judge(
            facts_of("offline", "OFFLINE", **between, targets=demanded_targets(F1, variant, Division.CLOSED))
        )
        for variant in ("99", "99.9")
    }
    assert found["99"].is_accurate is True
    assert found["99.9"].is_accurate is False
    assert [each.rule for each in found["99.9"].failed] == ["accuracy.F1@99.9"]


def test_the_open_division_requires_neither_scores_nor_nearness_nor_an_order_and_reports_them(facts_of):
    far = OutputDifference(value=9.0, precision="fp32", bounds={"fp32": 0.1}, unit="in logits", samples=4)
    bad = {"scores": {"F1": 3.0}, "output_difference": far, "length_across_passes": 1.0}
    closed = judge(facts_of("offline", "OFFLINE", **bad, targets=F1))
    assert {each.rule for each in closed.failed} == {"accuracy.F1@99", "output_difference", "pass_order"}
    targets = demanded_targets(F1, "99", Division.OPEN)
    found = judge(facts_of("offline", "OFFLINE", **bad, targets=targets, is_open=True))
    assert (found.is_valid, found.is_accurate, found.failed) == (True, None, ())
    missed = {each.rule for each in found.results if not each.passed}
    assert missed == {"accuracy.F1@99", "accuracy.F1@99.9", "output_difference", "pass_order"}


def test_an_open_run_is_by_the_rules_only_if_it_was_scored(facts_of):
    from mlbench.contracts.workload import Profile
    from mlbench.rules.tiers import Tier

    official = {"tier": Tier.VALID, "profile": Profile.FULL, "is_open": True}
    targets = demanded_targets(F1, "99", Division.OPEN)
    scored = judge(facts_of("offline", "OFFLINE", **official, scores={"F1": 3.0}, targets=targets))
    assert scored.is_conformant
    assert not judge(facts_of("offline", "OFFLINE", **official)).is_conformant
