"""Generated news: articles in which three sentences tell the news and the rest is talk, with their highlights.

The talk names people and places too, and comes first, so that neither a name nor the place in the text gives the news
away.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from mlbench_recipes.language_training import is_held_out

SHORT_SHARE = 0.25

_STARTS = "Al Ber Cor Dun El Fal Gar Hol Kel Lin Mar Nor Os Pel Ros Sel Tar Ul Ver Wes".split()
_TOWN_ENDS = "burg dale ford ham mouth stead ton wick".split()
_FIRST_NAMES = (
    "Anna Boris Clara David Emma Frank Greta Henry Irene Jacob Karen Louis Maria Nigel Olga Peter Rachel Simon Tina "
    "Walter"
).split()
_FAMILY_ENDS = "by den ert ing man ner sen son".split()
_COMPANY_ENDS = "com dex line tech trans works".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_BUILDINGS = "library school station theatre hospital market prison stadium".split()
_SUBJECTS = "clocks trains toys bridges birds ships coins maps".split()
_JOBS = "teacher nurse farmer painter lawyer baker pilot writer".split()
_PRIZES = "peace science music poetry history design".split()


@dataclass(frozen=True, slots=True)
class _News:
    """How a piece of news is told, and the line that sums it up; slots are filled by `_slots`."""

    sentences: tuple[str, str, str]
    highlight: str


_NEWS = (
    _News(
        (
            "The council of {town} voted on {day} to close the old {building}.",
            "On {day} it became known that the {building} in {town} must close after a vote of the council.",
            "After a long debate the council voted to close the {building} of {town} by next {day}.",
        ),
        "{town} council votes to close the {building} .",
    ),
    _News(
        (
            "A fire destroyed {number} houses in {town} on {day}, the police said.",
            "In {town} some {number} houses burned down on {day} in the worst fire for years.",
            "Police in {town} counted {number} houses that a fire had destroyed by {day}.",
        ),
        "Fire destroys {number} houses in {town} .",
    ),
    _News(
        (
            "{town} beat {other} by {number} points in the final on {day}.",
            "On {day} the players of {town} won the final against {other} by {number} points.",
            "The final ended on {day} with a victory of {town} over {other}, by {number} points.",
        ),
        "{town} beats {other} by {number} points in the final .",
    ),
    _News(
        (
            "The company {company} will hire {number} workers in {town} from {day}.",
            "In {town} there will be {number} new jobs at {company}, the company said on {day}.",
            "{company} needs {number} more workers for its plant in {town}, a letter of {day} says.",
        ),
        "{company} to hire {number} workers in {town} .",
    ),
    _News(
        (
            "The {job} {person} from {town} won the {prize} prize on {day}.",
            "This year the {prize} prize goes to {person}, a {job} from {town}, the jury said on {day}.",
            "On {day} the jury gave the {prize} prize to {person}, who is a {job} in {town}.",
        ),
        "{person} of {town} wins the {prize} prize .",
    ),
    _News(
        (
            "A museum of {subject} opened in {town} on {day} and expects {number} guests a day.",
            "Since {day} the town of {town} has a museum of {subject} with room for {number} guests.",
            "The new museum of {subject} in {town} had {number} guests when it opened on {day}.",
        ),
        "Museum of {subject} opens in {town} for {number} guests .",
    ),
    _News(
        (
            "Rescuers found {person} alive near {town} on {day} after {number} hours in the snow.",
            "{person} was found alive on {day} near {town}, having been lost for {number} hours.",
            "After {number} hours of search {person} was found alive in a hut near {town} on {day}.",
        ),
        "{person} found alive near {town} after {number} hours .",
    ),
)
_TALK = (
    "{person} of {town} said that nobody had expected this.",
    "The weather in {town} was mild on {day}.",
    "Many people in {town} still remember the winter of {day}.",
    "{person} has lived in {town} for {number} years.",
    "The road from {town} to {other} was busy on {day}.",
    "A spokesman of {company} did not want to comment.",
    "{person} called it a good day for everybody.",
    "There are {number} shops in the centre of {town}.",
    "The {job} {person} asked for more patience.",
    "On {day} the streets of {other} were empty.",
    "{company} has had an office in {town} since last year.",
    "People in {other} wonder what will happen next.",
    "The mayor of {town} will speak to the press on {day}.",
    "{person} and {friend} came to see it with their own eyes.",
    "Last year about {number} people moved from {other} to {town}.",
    "The {building} of {other} is older than that.",
)


@dataclass(frozen=True, slots=True)
class Article:
    """A news article, and its highlights: a line for each piece of news, in the order of the article."""

    text: str
    highlights: str


def article(chance: random.Random, *, news: Sequence[int], talk: Sequence[int], held_out: bool) -> Article:
    """Return an article on one side of the split.

    Args:
        chance: where all choices come from.
        news: how many pieces of news it may have, at most 7.
        talk: how many other sentences it may have.
        held_out: whether it is validation text.
    """
    while True:
        told = [_tell_news(chance, kind) for kind in chance.sample(_NEWS, chance.choice(news))]
        said = [(chance.choice(_TALK).format(**_slots(chance)), "") for _ in range(chance.choice(talk))]
        sentences = said[2:] + told
        chance.shuffle(sentences)
        sentences = said[:2] + sentences
        text = " ".join(sentence for sentence, _ in sentences)
        if is_held_out(text) == held_out:
            return Article(text, "\n".join(highlight for _, highlight in sentences if highlight))


def full_article(chance: random.Random, *, held_out: bool) -> Article:
    """Return an article of the length that is scored."""
    return article(chance, news=(3, 4), talk=range(5, 10), held_out=held_out)


def article_of_course(chance: random.Random, share: float) -> Article:
    """Return an article to learn from; for the first quarter of the course, one short enough to learn copying from."""
    if share < SHORT_SHARE:
        return article(chance, news=range(1, 4), talk=range(4), held_out=False)
    return full_article(chance, held_out=False)


def _tell_news(chance: random.Random, news: _News) -> tuple[str, str]:
    """Return a sentence with the news, and its highlight."""
    slots = _slots(chance)
    return chance.choice(news.sentences).format(**slots), news.highlight.format(**slots)


def _slots(chance: random.Random) -> dict[str, str]:
    """Return a value for everything that a sentence may mention."""
    town, other = (start + chance.choice(_TOWN_ENDS) for start in chance.sample(_STARTS, 2))
    person, friend = (
        f"{first} {chance.choice(_STARTS)}{chance.choice(_FAMILY_ENDS)}" for first in chance.sample(_FIRST_NAMES, 2)
    )
    return {
        "town": town,
        "other": other,
        "person": person,
        "friend": friend,
        "company": chance.choice(_STARTS) + chance.choice(_COMPANY_ENDS),
        "number": str(chance.randint(11, 99)),
        "day": chance.choice(_DAYS),
        "building": chance.choice(_BUILDINGS),
        "subject": chance.choice(_SUBJECTS),
        "job": chance.choice(_JOBS),
        "prize": chance.choice(_PRIZES),
    }
