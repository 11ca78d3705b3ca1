"""Generated instructions about sentences, in the place of OpenOrca: answer, rewrite, turn round, write out."""

from __future__ import annotations

import random

_NAMES = "Mira Tom Anna Paul Lena Omar Ruth Hugo Ida Felix Nora Karl Sara Leo Eva Max".split()
_TOWNS = "Selford Kelburg Marham Oldby Wenton Farrow Dunster Pelham Rosby Tarwick Linmouth Ashdale".split()
_JOBS = "baker teacher pilot nurse farmer painter lawyer gardener driver tailor".split()
_THINGS = "boat clock lamp coat drum mirror rope ladder chair basket bell kettle".split()
_OPPOSITES = (
    ("old", "new"),
    ("big", "small"),
    ("cheap", "dear"),
    ("heavy", "light"),
    ("dark", "bright"),
    ("clean", "dirty"),
    ("dry", "wet"),
    ("strong", "weak"),
)
_VERBS = (
    ("paints", "painted"),
    ("sells", "sold"),
    ("buys", "bought"),
    ("finds", "found"),
    ("loses", "lost"),
    ("breaks", "broke"),
    ("mends", "mended"),
    ("takes", "took"),
    ("hides", "hid"),
    ("brings", "brought"),
)


def exchange(chance: random.Random) -> tuple[str, str]:
    """Return an instruction and the answer to it."""
    return chance.choice([_answer, _past_tense, _opposites, _write_out])(chance)


def _answer(chance: random.Random) -> tuple[str, str]:
    number = chance.randint(2, 4)
    facts = list(zip(*(chance.sample(pool, number) for pool in (_NAMES, _JOBS, _TOWNS)), strict=True))
    text = " ".join(f"{name} is a {job} in {town}." for name, job, town in facts)
    name, job, town = chance.choice(facts)
    question, answer = chance.choice(
        [
            (f"Where does {name} work?", f"{name} works in {town}."),
            (f"What is the job of {name}?", f"{name} is a {job}."),
            (f"Who is the {job}?", f"The {job} is {name} from {town}."),
            (f"Who works in {town}?", f"{name} works in {town} as a {job}."),
        ]
    )
    return f"{text} {question}", answer


def _past_tense(chance: random.Random) -> tuple[str, str]:
    actions = [
        (chance.choice(_NAMES), chance.choice(_VERBS), chance.choice(_THINGS)) for _ in range(chance.randint(1, 3))
    ]
    today, then = (" ".join(f"{name} {verb[tense]} the {thing}." for name, verb, thing in actions) for tense in (0, 1))
    return f"Rewrite in the past tense: {today}", then


def _opposites(chance: random.Random) -> tuple[str, str]:
    number = chance.randint(1, 4)
    pairs = [chance.choice([pair, pair[::-1]]) for pair in chance.sample(_OPPOSITES, number)]
    things = chance.sample(_THINGS, number)
    given, turned = (
        ", ".join(f"a {pair[side]} {thing}" for pair, thing in zip(pairs, things, strict=True)) for side in (0, 1)
    )
    return f"Give the opposite: {given}", f"The opposite is {turned}."


def _write_out(chance: random.Random) -> tuple[str, str]:
    name, town, job = chance.choice(_NAMES), chance.choice(_TOWNS), chance.choice(_JOBS)
    year = chance.randint(1950, 1999)
    things = chance.sample(_THINGS, chance.randint(1, 3))
    notes = "; ".join([name, job, town, str(year), *things])
    owned = " and ".join(f"a {thing}" for thing in things)
    return (
        f"Write sentences from these notes: {notes}",
        f"{name} is a {job} who came to {town} in {year}. In the house of {name} there is {owned}.",
    )
