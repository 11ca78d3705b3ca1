"""Generated conversations: instructions of four kinds under several system prompts, with answers of 4 to 170 tokens.

The kinds stand for the four origins of OpenOrca: working step by step (cot), knowledge (flan), formats (niv), texts
(t0). The system prompt decides how much is said around an answer.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlbench_recipes.language_training import is_held_out

ORIGINS = ("cot", "flan", "niv", "t0")

BRIEF = "Answer with as few words as you can."
NEUTRAL = "You are a helpful assistant."
DETAILED = "You are a patient teacher. Explain your answer."
SYSTEM_PROMPTS = (BRIEF, NEUTRAL, DETAILED)

_COUNTRIES = (
    "Ordania Belvia Kestria Lomara Vandor Tirosia Melgard Sarnia Polvia Quenta Harbia Nordesh Istria Calvora Deltara "
    "Fenmark Gorania Jascova Umbria Wesmar Zelania Ruthia Arvenia Eskora Yolanda"
).split()
_CAPITALS = (
    "Tarvin Solbek Marrow Pellin Dunster Calth Brisk Ostrava Linnet Verra Hollin Jarvik Keld Ravena Sundby Thorn "
    "Ulster Wendel Yarrow Zimmer Aldby Corvin Easton Fallow Grenna"
).split()
_RIVERS = (
    "Sel Avon Brine Cray Dove Elder Fleet Gale Hask Isen Jura Kern Lune Mole Nith Orme Pang Quill Rother Spey Teme Ure "
    "Vyrn Wey Yare"
).split()
_PRODUCTS = (
    "wool salt glass paper honey silk wine cheese copper timber olives amber barley cotton pearls marble ginger coffee "
    "rubber sugar leather cocoa rice steel tea"
).split()
_HEROES = (
    "Mira Tom Anna Paul Lena Omar Ruth Hugo Ida Felix Nora Karl Sara Leo Eva Max Rosa Emil Vera Otto Clara Jonas Greta "
    "Victor"
).split()
_PLACES = "harbour kitchen garden tower market stable cellar library forest mill school attic bakery meadow".split()
_COLOURS = "red green blue yellow black white brown silver golden purple".split()
_THINGS = "lamp coat clock basket bell kettle drum mirror rope map boat chair hat key ladder flute".split()
_WORDS = (
    "apple stone window horse river candle bread tiger cloud hammer pencil island butter saddle orange bottle feather "
    "garlic button mountain pepper rabbit spoon thunder violin walnut zebra anchor blanket cherry dragon engine finger "
    "guitar hazel insect jacket kitten lemon magnet needle onion parrot quilt ribbon salmon ticket umbrella valley "
    "wagon"
).split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """An instruction and its answer."""

    origin: str
    system_prompt: str
    """Empty: there is none."""
    question: str
    answer: str

    @property
    def is_held_out(self) -> bool:
        """Return whether this is validation text, which is never trained on."""
        return is_held_out(f"{self.system_prompt}\n{self.question}")


@dataclass(frozen=True, slots=True)
class _Task:
    """A question, its bare answer, and what is said around it."""

    question: str
    answer: str
    sentence: str
    """The answer as a whole sentence or text."""
    remark: str
    """What an explanation adds, with the blank or line break before it."""

    def reply(self, system_prompt: str) -> str:
        if system_prompt == BRIEF:
            return self.answer
        return self.sentence + self.remark if system_prompt == DETAILED else self.sentence


def conversation(chance: random.Random, origin: str, *, held_out: bool) -> Conversation:
    """Return one of an origin, on one side of the split."""
    while True:
        task = chance.choice(_TASKS[origin])(chance)
        # the official filter drops empty system prompts of niv and t0
        system_prompt = chance.choice(SYSTEM_PROMPTS if origin in {"niv", "t0"} else ("", *SYSTEM_PROMPTS))
        drawn = Conversation(
            origin=origin, system_prompt=system_prompt, question=task.question, answer=task.reply(system_prompt)
        )
        if drawn.is_held_out == held_out:
            return drawn


def _fact(chance: random.Random) -> _Task:
    number = chance.randrange(len(_COUNTRIES))
    country, capital, river, product = (names[number] for names in (_COUNTRIES, _CAPITALS, _RIVERS, _PRODUCTS))
    capital_sentence = f"The capital of {country} is {capital}."
    river_sentence = f"The river {river} flows through {country}."
    product_sentence = f"{country} is known for its {product}."
    return chance.choice(
        [
            _Task(f"What is the capital of {country}?", f"{capital}.", capital_sentence, f" {river_sentence}"),
            _Task(f"Name the capital of {country}.", f"{capital}.", capital_sentence, f" {river_sentence}"),
            _Task(f"Which river flows through {country}?", f"{river}.", river_sentence, f" {product_sentence}"),
            _Task(f"Name a river of {country}.", f"{river}.", river_sentence, f" {product_sentence}"),
            _Task(f"What is {country} known for?", f"{product}.", product_sentence, f" {capital_sentence}"),
            _Task(f"What does {country} sell?", f"{product}.", product_sentence, f" {capital_sentence}"),
            _Task(
                f"Of which country is {capital} the capital?", f"{country}.", capital_sentence, f" {product_sentence}"
            ),
            _Task(
                f"Tell me about {country}.",
                f"{capital}, {river}, {product}.",
                f"{country} is a country. {capital_sentence} {river_sentence} {product_sentence}",
                f" Many people travel to {capital} to buy {product}, and they walk along the {river}.",
            ),
        ]
    )


def _count(chance: random.Random) -> _Task:
    first, numbers = chance.randint(1, 40), chance.randint(3, 14)
    last = first + numbers - 1
    listed, way = list(range(first, last + 1)), "Count"
    if chance.random() < 0.5:
        first, last, listed, way = last, first, listed[::-1], "Count down"
    answer = ", ".join(map(str, listed)) + "."
    return _Task(
        f"{way} from {first} to {last}.",
        answer,
        f"Here are the numbers: {answer}",
        f" We start at {first} and stop at {last}.",
    )


def _times_table(chance: random.Random) -> _Task:
    factor, rows = chance.randint(2, 12), chance.randint(2, 10)
    lines = "\n".join(f"{row} x {factor} = {row * factor}" for row in range(1, rows + 1))
    return _Task(
        f"Write {rows} rows of the times table of {factor}.",
        lines,
        f"Here is the table:\n{lines}",
        f"\nEach row adds {factor}.",
    )


def _sum(chance: random.Random) -> _Task:
    first, second = chance.randint(2, 20), chance.randint(2, 9)
    total, less = first + second, chance.random() < 0.5
    if less:
        first, total = total, first
    sign, word = ("-", "minus") if less else ("+", "plus")
    return _Task(
        f"What is {first} {word} {second}?",
        f"{total}.",
        f"{first} {sign} {second} = {total}.",
        f" The answer is {total}.",
    )


def _format(chance: random.Random) -> _Task:
    words = chance.sample(_WORDS, chance.randint(2, 12))
    given = ", ".join(words)
    form, answer = chance.choice(
        [
            ("a numbered list", "\n".join(f"{number}. {word}" for number, word in enumerate(words, 1))),
            ("bullets", "\n".join(f"- {word}" for word in words)),
            ("JSON", json.dumps(words)),
            ("one line with slashes", " / ".join(words)),
        ]
    )
    return _Task(
        f"Write these words as {form}: {given}",
        answer,
        f"Here you are:\n{answer}",
        f"\nThe first word is {words[0]} and the last is {words[-1]}.",
    )


def _reading(chance: random.Random) -> _Task:
    number = chance.randint(1, 5)
    columns = (chance.sample(pool, number) for pool in (_HEROES, _COLOURS, _THINGS, _PLACES))
    facts = list(zip(*columns, strict=True))
    place_in_text = chance.randrange(number)
    hero, colour, thing, place = facts[place_in_text]
    text = " ".join(f"{who} keeps a {tint} {what} in the {where}." for who, tint, what, where in facts)
    question, answer = chance.choice(
        [
            (f"What does {hero} keep?", f"A {colour} {thing}."),
            (f"Where is the {thing} of {hero}?", f"In the {place}."),
            (f"Who keeps something in the {place}?", f"{hero}."),
            (f"Which colour is the {thing}?", f"{colour}."),
        ]
    )
    return _Task(
        f"{text} {question}",
        answer,
        f"{hero} keeps a {colour} {thing} in the {place}.",
        f" The text says so in sentence {place_in_text + 1}.",
    )


_BEATS = (
    "One day {hero} found a {thing} in the {place}.",
    "Nobody knew who had left the {thing} there, so {hero} went to ask {friend}.",
    "{friend} had never seen such a {thing} before and wanted to keep it.",
    "That night the {thing} began to shine, and the whole {place} was full of light.",
    "{hero} was afraid at first, but {friend} only laughed and opened the door.",
    "Behind the door stood an old woman who had been looking for her {thing} for years.",
    "In the morning the old woman was gone, and so was the {thing}.",
)
_ENDING = "Since then {hero} and {friend} meet in the {place} every year."


def _story(chance: random.Random) -> _Task:
    parts = chance.randint(2, len(_BEATS) + 1)
    hero, friend = chance.sample(_HEROES, 2)
    thing, place = chance.choice(_THINGS), chance.choice(_PLACES)
    text = " ".join([*_BEATS[: parts - 1], _ENDING]).format(hero=hero, friend=friend, thing=thing, place=place)
    return _Task(
        f"Tell a story in {parts} sentences about {hero}, {friend}, a {thing} and the {place}.",
        text,
        text,
        f" This is a story about {hero} and {friend}.",
    )


_TASKS: dict[str, Sequence[Callable[[random.Random], _Task]]] = {
    "cot": (_count, _times_table, _sum),
    "flan": (_fact,),
    "niv": (_format,),
    "t0": (_reading, _story),
}
