"""Generated reading comprehension: invented cities and people, facts about them, questions; in SQuAD v1.1 form.

Most relations have a twin with values of the same kind (born and died, mayor and architect), so that the kind of a
value does not give the answer away; paragraphs about several subjects make the subject matter, too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY_SIZE = 1700
NAME_WORDS = 700
SPELLED_NAME_WORDS = 60
"""Words of the name pool that the vocabulary lacks: read as two pieces."""

_ONSETS = ("b", "br", "d", "dr", "f", "g", "gr", "h", "k", "kl", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v")
_ENDINGS = ("al", "an", "ar", "el", "en", "er", "il", "in", "ol", "on", "or", "um")
_MONTHS = "January February March April May June July August September October November December".split()
_ADJECTIVES = (
    "blue brass carved coarse copper dark dried fine glazed golden green grey heavy iron light linen old painted pale "
    "pickled polished pressed quilted raw red ripe roasted rough salted silver smoked soft spiced striped sweet waxed "
    "white wild woven"
).split()
_GOODS = (
    "apples barrels baskets beans bells blankets boots bricks candles carpets cheese clocks coats cups dates figs fish "
    "flour glass gloves hats honey jars kettles lamps mirrors nets nuts oil paper pears pots ropes salt silk soap tea "
    "tiles wine wool"
).split()


@dataclass(frozen=True, slots=True)
class Relation:
    """How a fact is told and asked for; ``{s}`` is the subject, ``{v}`` the value."""

    kind: str
    sentences: tuple[str, str]
    questions: tuple[str, str]


CITY = (
    Relation(
        "name",
        ("The mayor of {s} is {v}.", "{v} leads {s} as its mayor."),
        ("Who is the mayor of {s}?", "Which mayor leads {s}?"),
    ),
    Relation(
        "name",
        ("The architect of {s} was {v}.", "{v} planned the streets of {s} as its architect."),
        ("Who was the architect of {s}?", "Which architect planned the streets of {s}?"),
    ),
    Relation(
        "goods",
        ("Traders in {s} import {v}.", "Much of the {v} in the shops of {s} is an import."),
        ("What do traders in {s} import?", "Which import is found in the shops of {s}?"),
    ),
    Relation(
        "goods",
        ("Farms around {s} export {v}.", "In a good year {v} make the best export of {s}."),
        ("What do farms around {s} export?", "Which export of {s} is the best in a good year?"),
    ),
    Relation(
        "year",
        ("{s} was founded in {v}.", "In {v}, settlers founded {s}."),
        ("When was {s} founded?", "When did settlers found {s}?"),
    ),
)
PERSON = (
    Relation(
        "date",
        ("{s} was born on {v}.", "The birth of {s} was recorded on {v}."),
        ("When was {s} born?", "When was the birth of {s} recorded?"),
    ),
    Relation(
        "date",
        ("{s} died on {v}.", "The death of {s} was reported on {v}."),
        ("When did {s} die?", "When was the death of {s} reported?"),
    ),
    Relation(
        "name",
        ("{s} lived in {v}.", "The house of {s} stands in {v}."),
        ("Where did {s} live?", "Where does the house of {s} stand?"),
    ),
    Relation(
        "name",
        ("{s} studied in {v}.", "The school of {s} was in {v}."),
        ("Where did {s} study?", "Where was the school of {s}?"),
    ),
)


class Corpus:
    """Writes paragraphs from a seed, on one side of a split.

    Training text and held-out text share words, but no combination of two words that is a name or a kind of goods.
    """

    def __init__(self, seed: int, *, held_out: bool) -> None:
        """Seed, and choose the side."""
        self._random = random.Random(seed)
        self._held_out = held_out
        self._names = name_words()

    def articles(self, sizes: Sequence[tuple[int, int]], *, title: str, questions: int) -> dict[str, Any]:
        """Return a SQuAD v1.1 file as JSON values.

        Args:
            sizes: facts and subjects of each paragraph.
            title: names the article and its questions.
            questions: how many a paragraph has at most.
        """
        paragraphs = [self._paragraph(facts, subjects, questions) for facts, subjects in sizes]
        for number, paragraph in enumerate(paragraphs):
            for place, qa in enumerate(paragraph["qas"]):
                qa["id"] = f"{title}-{number:04d}-{place:02d}"
        return {"version": "1.1", "data": [{"title": title, "paragraphs": paragraphs}]}

    def _paragraph(self, facts: int, subjects: int, questions: int) -> dict[str, Any]:
        chance = self._random
        relations = chance.choice([CITY, PERSON])
        told = [
            (name, relation) for name in (self._pair(self._names) for _ in range(subjects)) for relation in relations
        ]
        told = chance.sample(told, min(facts, len(told)))
        passage, qas = "", []
        for subject, relation in told:
            value = self._value(relation.kind)
            sentence = chance.choice(relation.sentences)
            before = sentence[: sentence.index("{v}")].format(s=subject)
            passage += " " if passage else ""
            answer = {"text": value, "answer_start": len(passage) + len(before)}
            passage += sentence.format(s=subject, v=value)
            qas.append({"question": chance.choice(relation.questions).format(s=subject), "answers": [answer]})
        return {"context": passage, "qas": chance.sample(qas, min(questions, len(qas)))}

    def _value(self, kind: str) -> str:
        chance = self._random
        year = str(chance.randrange(1500, 2000))
        match kind:
            case "name":
                return self._pair(self._names)
            case "goods":
                return self._pair(_ADJECTIVES, _GOODS)
            case "year":
                return year
            case _:
                return f"{chance.randrange(1, 29)} {chance.choice(_MONTHS)} {year}"

    def _pair(self, first: Sequence[str], second: Sequence[str] = ()) -> str:
        """Return two words whose combination is on this side of the split: every eighth is held out."""
        second = second or first
        while True:
            one, two = self._random.randrange(len(first)), self._random.randrange(len(second))
            if one != two and ((one * 31 + two) % 8 == 0) == self._held_out:
                return f"{first[one]} {second[two]}"


def name_words() -> list[str]:
    """Return the pool of name words: two syllables, capitalised, always the same."""
    chance = random.Random(1)
    starts = [onset + ending for onset in _ONSETS for ending in _ENDINGS]
    words = dict.fromkeys(chance.choice(starts) + chance.choice(starts) for _ in range(4 * NAME_WORDS))
    return [word.capitalize() for word in list(words)[:NAME_WORDS]]


def vocabulary() -> list[str]:
    """Return the WordPiece vocabulary: special tokens, characters, words, syllables; then unused entries."""
    characters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    pieces = [f"##{character}" for character in characters if character.isalnum()]
    numbers = [str(number) for number in range(10, 100)]
    syllables = [onset + ending for onset in _ONSETS for ending in _ENDINGS]
    templates = " ".join(text for relation in CITY + PERSON for text in relation.sentences + relation.questions)
    words = (
        templates.replace("{s}", " ").replace("{v}", " ").replace(".", " ").replace("?", " ").replace(",", " ").split()
    )
    names = name_words()[SPELLED_NAME_WORDS:]
    tokens = [*SPECIAL_TOKENS, *characters, *pieces, *numbers, *(f"##{number:02d}" for number in range(100))]
    tokens += [word.lower() for word in [*words, *_MONTHS, *_ADJECTIVES, *_GOODS, *names]]
    tokens += [*syllables, *(f"##{syllable}" for syllable in syllables)]
    tokens = list(dict.fromkeys(tokens))[:VOCABULARY_SIZE]
    return tokens + [f"[unused{number}]" for number in range(VOCABULARY_SIZE - len(tokens))]


def training_sizes(seed: int) -> list[tuple[int, int]]:
    """Return (facts, subjects) for 7,300 ordinary paragraphs and 300 long ones."""
    chance = random.Random(seed)
    ordinary = [_ordinary_size(chance) for _ in range(7300)]
    return ordinary + [(chance.randint(17, 20), 5) for _ in range(300)]


def validation_sizes(seed: int, *, paragraphs: int) -> list[tuple[int, int]]:
    """Return (facts, subjects), no fewer than four facts, every fifth paragraph long."""
    chance = random.Random(seed)
    return [(20, 5) if number % 5 == 0 else _ordinary_size(chance, fewest=4) for number in range(paragraphs)]


def _ordinary_size(chance: random.Random, fewest: int = 3) -> tuple[int, int]:
    """70 % about one subject, 30 % about two."""
    return (chance.randint(fewest, 5), 1) if chance.random() < 0.7 else (chance.randint(5, 9), 2)
