"""Two checkers of submission trees must agree: mlbench's, and one written from the description of the rules alone.

`mlbench submit build` makes trees and `mlbench submit check` judges them by the same code, so a rule that it misreads
would pass the tests of both. Here it passes only if the second reading misreads it too.
"""

import csv
import shutil
from pathlib import Path

import pytest
from independent_checker import Outcome, main, read_tree
from more_changes import OF_THE_SMALL_TREE, OTHER_TREES, TABLES_OF_THE_SMALL_TREE, over_a_network
from test_build import complete  # noqa: F401 - fixtures
from test_build_cluster import place as cluster_runs  # noqa: F401
from test_build_network import stored as network_runs  # noqa: F401
from test_check import COMPLIANCE, FOLDERS, HARMLESS, MEASUREMENTS, RUNS, SCORES
from test_check_systems import CHANGES as SYSTEMS
from test_check_systems import metered
from tree_building import build
from tree_changes import CHAT, CHAT_OFFLINE, VISION, edit, remove
from whole_tree import DATACENTER, EDGE, WholeTree, write

from mlbench.submission.checking.findings import Reaction
from mlbench.submission.checking.whole_tree import check_tree

TREES = Path(__file__).parents[1] / "data" / "submission"
LEFT_OPEN = {
    "accuracy-files": "The description says that the accuracy folder holds exactly four files, not what a difference "
    "costs. mlbench says that it is logged and costs nothing, as in the checker's public source before the round; in "
    "that after the round it costs the result.",
}
"""Findings of the independent checker whose weight nothing at hand decides."""


def outcome_of(reactions):
    """Return the worst of what the official checker does about a result."""
    if Reaction.CRASHES in reactions:
        return Outcome.CRASHES
    return Outcome.REFUSED if Reaction.REFUSES in reactions else Outcome.ACCEPTED


def assert_agreement(root):
    """Check that both say the same of each result, and that what mlbench alone refuses is said to break the rules."""
    check, results = check_tree(root), {result.path: result for result in read_tree(root).results}
    assert results.keys() == {each.entry.path for each in check.entries}
    for each in check.entries:
        result = results[each.entry.path]
        losses = {finding.code for finding in result.findings if finding.is_loss}
        reactions = {finding.official for finding in check.findings if finding.concerns(result.path)}
        if not losses or losses - LEFT_OPEN.keys():
            assert (result.path, result.outcome) == (result.path, outcome_of(reactions)), [*map(str, result.findings)]
        assert each.is_accepted or result.findings, f"{result.path}: {[finding.rule for finding in each.findings]}"
    return results


def assert_nothing_found(root, count):
    """Check that the independent checker accepts a tree of so many results, and knows nothing better."""
    reading = read_tree(root)
    assert [*map(str, reading.findings)] == []
    assert [str(finding) for result in reading.results for finding in result.findings] == []
    assert (len(reading.results), reading.is_accepted) == (count, True)


def test_a_tree_of_all_44_entries_passes(tmp_path):
    WholeTree(tmp_path).add("fixture_dc", "datacenter", DATACENTER).add("fixture_edge", "edge", EDGE)
    assert_nothing_found(tmp_path, 44)


@pytest.mark.usefixtures("unverified")
@pytest.mark.parametrize(
    ("runs", "words", "count"),
    [
        ("complete", "--category datacenter", 26),
        pytest.param("complete", "--category edge", 18, marks=pytest.mark.thorough("submission")),
        pytest.param("complete", "--category edge --division open", 18, marks=pytest.mark.thorough("submission")),
        ("network_runs", "--category datacenter --division network", 6),
        ("cluster_runs", "--category datacenter", 2),
    ],
)
def test_trees_that_mlbench_builds_pass(request, tmp_path, runs, words, count):
    done = build(request.getfixturevalue(runs), *words.split(), "-o", tmp_path / "tree")
    assert done.exit_code == 0, done.output
    assert_nothing_found(tmp_path / "tree", count)


TABLES = {"folders": FOLDERS, "measurements": MEASUREMENTS, "runs": RUNS, "scores": SCORES, "compliance": COMPLIANCE}
TABLES |= {"systems": SYSTEMS}
CHANGES = {
    f"{table} {number}, {rule}": change
    for table, rows in TABLES.items()
    for number, (rule, _, _, change) in enumerate(rows)
}
POWER = {
    "a meter's files": lambda t, p: None,
    "no log of the meter's server": lambda t, p: remove(p / "power/server.log"),
    "no readings while ranging": lambda t, p: remove(p / "ranging/spl.txt"),
    "no readings": lambda t, p: remove(p / "run_1/spl.txt"),
    "readings of another hour": lambda t, p: edit(p / "run_1/spl.txt", "12:05", "13:05"),
    "no settings of the meter": lambda t, p: remove(t.measurements(*VISION) / "power_settings.md"),
}


def first_of_each(kind, names):
    """Return the first name of each kind: `nox -s tests` tries these, and `nox -s thorough` the others."""
    return [*{kind(name): name for name in reversed([*names])}.values()]


def kind_of_tree(name):
    """Return the model whose score is changed, or else how a tree is divided and what is wrong with it."""
    model, _, score = name.partition(": ")
    return model if score else name.partition(", ")[2]


def table_of(change):
    """Return the table that a change is from."""
    return change.partition(" ")[0]


KEPT = [
    *first_of_each(table_of, CHANGES),
    next(iter(HARMLESS)),
    *(next(iter(table)) for table in TABLES_OF_THE_SMALL_TREE),
]
"""`test_check` has a tree with each of the others for mlbench's own checker."""


@pytest.mark.thorough("submission", but=KEPT)
@pytest.mark.parametrize(
    "change",
    [*CHANGES.values(), *HARMLESS.values(), *OF_THE_SMALL_TREE.values()],
    ids=[*CHANGES, *HARMLESS, *OF_THE_SMALL_TREE],
)
def test_both_say_the_same_of_a_change(tree, change):
    change(tree)
    assert_agreement(tree.root)


@pytest.mark.parametrize("change", POWER.values(), ids=POWER)
def test_both_say_the_same_of_a_meters_files(tree, change):
    change(tree, metered(tree))
    assert_agreement(tree.root)


@pytest.mark.thorough("submission", but=first_of_each(kind_of_tree, OTHER_TREES))
@pytest.mark.parametrize(("division", "category", "models", "change"), OTHER_TREES.values(), ids=OTHER_TREES)
def test_both_say_the_same_of_other_trees(tmp_path, division, category, models, change):
    tree = WholeTree(tmp_path, division).add("anvil", category, models)
    if division == "network":
        over_a_network(tree)
    change(tree)
    assert_agreement(tree.root)


@pytest.mark.parametrize(
    ("name", "codes"), [("v4.1", {"no-test"}), ("v5.1", {"seed", "no-accuracy", "no-test", "image"})]
)
def test_both_say_the_same_of_published_trees(tmp_path, name, codes):
    assert_agreement(TREES / name)
    root = Path(shutil.copytree(TREES / name, tmp_path / name))
    for folder in root.glob("*/*/measurements/*/*/*"):  # what was left out here
        write(folder / "README.md", "Left out.\n")
        write(folder.parents[3] / "code" / folder.parent.name / "README.md", "Left out.\n")
    results = assert_agreement(root).values()
    assert {finding.code for result in results for finding in result.findings if finding.is_loss} == codes
    accepted = {result.path for result in results if result.outcome is Outcome.ACCEPTED}
    rows = csv.DictReader((TREES / "official_summary.csv").read_text().splitlines())
    without_tests = {row["Location"] for row in rows if row["Division"] == "open" or "gptj" in row["Model"]}
    assert accepted == (without_tests if name == "v4.1" else set())


def test_a_result_is_accepted_or_refused_or_ends_the_official_checker(tree):
    tree.log(*VISION, result_validity="INVALID")
    tree.log(*CHAT, result_validity="INVALID")
    next(tree.measurements(*CHAT_OFFLINE).glob("*.json")).unlink()
    reading = read_tree(tree.root)
    found = {result.path.partition("results/")[2]: result for result in reading.results}
    outcomes = [found["/".join(place)].outcome for place in (VISION, CHAT, CHAT_OFFLINE)]
    assert outcomes == [Outcome.REFUSED, Outcome.ACCEPTED, Outcome.CRASHES]
    assert [finding.code for finding in found["/".join(CHAT)].stricter] == ["invalid"]
    assert (reading.crashes, reading.is_accepted) == (True, False)


def test_the_independent_checker_prints_what_it_finds(tree, capsys):
    assert main([str(tree.root)]) == 0
    assert main([str(tree.root), "x"]) == main([str(tree.root / "nowhere")]) == 2
    remove(tree.result(*VISION) / "performance")
    capsys.readouterr()
    assert main([str(tree.root)]) == 1
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("closed/Fixture/results/fixture_edge/resnet50/Offline: refused")
    assert lines[place + 1].startswith("    refuses: file-missing: ")
