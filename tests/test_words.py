"""The field's words: functions are named by verbs, and private words stay out of names and texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [file for folder in ("mlbench", "plugins", "workloads") for file in sorted((ROOT / folder).rglob("*.py"))]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += [file for folder in ("plugins", "workloads", "examples") for file in sorted((ROOT / folder).rglob("*.md"))]

IRREGULAR = set(
    "begun bound broken brought built chosen done drawn driven fed given gone grown heard held kept".split()
)
IRREGULAR |= set(
    "known laid led left lent lost made meant met paid said seen sent shown sold spent spoken stood".split()
)
IRREGULAR |= set("taken taught thought thrown told torn understood won worn written".split())
NO_PARTICIPLES = {"bleed", "embed", "exceed", "feed", "heed", "need", "proceed", "seed", "shed", "speed"}
MOST_PARTICIPLES = 0.03
"""Of all functions but properties: pytest, click, pluggy, nox and transformers have 1 to 3 % of them."""

PRIVATE_NAMES = set("Appetite appetite Circumstances Flight Pace SharingOut Signs Speech Taker Wording".split())
PRIVATE_NAMES |= set(
    "crowded exhibit is_two_humped judged layered lede made_ready quickened raise_told settled".split()
)
PRIVATE_NAMES |= set("sharing_out taker told wording".split())
"""Words of an older state of this code, each of which has a common word in the field."""

PRIVATE_PHRASES = (
    "befell",
    "came to a bad end",
    "for want of",
    "Mend the",
    "Nor is",
    "send them home",
    "Tell whether",
    "the likest",
    "turn in circles",
    "two heaps",
    "who takes his time",
)

PRIVATE_PATTERNS = (
    r'"""Of (?!course)',
    r"\b[Hh]ears?\b",
    r"\b[Nn]obody\b",
    r"\b[Ww]hoever\b",
    r"\b(in vain|lest|befell|had (its|their) way|wait(s|ing)? for company)\b",
    r"\b(takes? no notice|in the midst|cr(y|ies) wolf)\b",
    r"\b(stands?|stood) still\b",
    r"\bmend(s|ed)?\b",
    r"\b(came|comes?) to (its|their|an) end\b",
    r"\b(is|are|be|was|were|been|being) told\b(?! apart)",
    r"(?<!there )\b(is|was) no (regular|[A-Z]|text|number|answer|record|list|file|folder|mapping|URL)",
    r"\bh(eld|olds?|olding) (\w+ ){0,4}against\b",
    r", want \b",
)
"""Phrases that an engineer does not say aloud, in sources and in pages but decisions, which are never rewritten."""
HOUSE_WORDS = {
    r"\b[Hh]arness": "overhead, or mlbench",
    r"\bow(e|es|ed|ing)\b": "requires, required",
    r"\b([Ii]n|[Bb]y) turns\b": "interleaved, alternately",
    r"\bbeside (other|another) (work|load)\b": "under other load",
    r"\b(has|have|had)( never| not)? met (no|one|an?|its|their|the|[A-Z]\w+)\b": "tested with",
    r"\brates? (that|which) (holds?|(was|is|were)( not)? held)\b": "sustained rate",
    r"\bseen to hold\b": "sustained",
    r"\b(to|cannot|can|could) be had\b": "available, missing",
    r"\b[Ww]hat (\w+ ){1,4}(came|comes?) to\b": "result",
    r"\bis what (is )?no (?=\w)": "is not a",
    r"\b(goes|went|go) on where\b": "continues where",
    r"\bis through\b": "is finished",
    r"\bputs? (a|one|each) (valid )?run to (its|their)\b": "runs the tests on a run",
    r"\bx 0\.\d+ as fast\b": "0.64x the speed of",
}
"""House words, and what people say; in all texts that users read: sources, pages and the reports' templates."""
CORPORA = ROOT / "workloads" / "mlbench_recipes"
"""The words in which small models are trained, in files named corpus, are not the project's."""

LONGEST_CELL = 200
"""Characters; what needs more is a section."""


@cache
def text_of(file: Path) -> str:
    """Return a file's text without the targets of links and the names of decisions."""
    return re.sub(r"\]\([^)]*\)|docs/decisions/\S+", "", file.read_text())


@cache
def definitions() -> list[tuple[str, str, Path]]:
    """Return kind, name and file of all classes, and of all functions that are no properties."""
    found = []
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found.append(("class", node.name, file))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
                if not any("property" in ast.unparse(decorator) for decorator in node.decorator_list):
                    found.append(("function", node.name, file))
    return found


def is_participle(name: str) -> bool:
    """Return whether a function is named by a past participle, as ``settled`` and ``made_ready`` are."""
    first = name.strip("_").split("_")[0]
    return first in IRREGULAR or (first.endswith("ed") and first not in NO_PARTICIPLES)


def test_functions_are_named_by_verbs():
    names = [name for kind, name, _ in definitions() if kind == "function"]
    found = sorted(name for name in names if is_participle(name))
    assert len(found) / len(names) < MOST_PARTICIPLES, found


def classes(*folders: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each class, and the file that defines it."""
    for kind, name, file in definitions():
        if kind == "class" and file.relative_to(ROOT).parts[0] in folders:
            yield name, str(file.relative_to(ROOT))


def test_a_class_shares_its_name_with_no_other():
    """One name, one thing: in the core, and among the public classes of core and plugins."""
    files: dict[str, list[str]] = {}
    for name, file in [*classes("mlbench"), *(each for each in classes("plugins") if each[0][0] != "_")]:
        files.setdefault(name, []).append(file)
    assert {name: places for name, places in files.items() if len(places) > 1} == {}


def test_private_words_are_no_names():
    found = {
        f"{file.relative_to(ROOT)}: {name}"
        for file in SOURCES
        for name in re.findall(r"^\s*(?:class|def|async def) (\w+)", file.read_text(), re.MULTILINE)
        if name in PRIVATE_NAMES
    }
    assert not found


@pytest.mark.parametrize("phrase", PRIVATE_PHRASES)
def test_private_phrases_are_in_no_text(phrase):
    assert [str(file.relative_to(ROOT)) for file in (*SOURCES, *PAGES) if phrase in file.read_text()] == []


@pytest.mark.parametrize("pattern", PRIVATE_PATTERNS)
def test_patterns_of_private_phrases_match_no_text(pattern):
    texts = [file for file in SOURCES if CORPORA not in file.parents or "corpus" not in file.name]
    texts += [page for page in PAGES if page.parent.name != "decisions"]
    assert {
        f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, found.start()) + 1}: {found[0]}"
        for file in texts
        for text in [text_of(file)]
        for found in re.finditer(pattern, text)
    } == set()


@pytest.mark.parametrize("pattern", HOUSE_WORDS)
def test_peoples_words_stand_in_the_place_of_house_words(pattern):
    texts = [file for file in SOURCES if CORPORA not in file.parents]
    texts += [page for page in PAGES if page.parent.name != "decisions"]
    texts += [file for file in sorted((ROOT / "mlbench").rglob("*.j*")) if file.suffix in {".jinja", ".json"}]
    found = {
        (file.relative_to(ROOT).as_posix(), found[0]) for file in texts for found in re.finditer(pattern, text_of(file))
    }
    assert found == set(), HOUSE_WORDS[pattern]


def test_cells_of_tables_are_short():
    pages = [page for page in PAGES if page.name != "settings.md"]  # written from the docstrings of settings
    rows = [(page.name, line) for page in pages for line in page.read_text().splitlines() if line.startswith("|")]
    cells = [(name, cell.strip()) for name, row in rows for cell in row.strip("|").split("|")]
    assert cells
    assert [(name, cell) for name, cell in cells if len(cell) > LONGEST_CELL] == []
