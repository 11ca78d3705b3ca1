"""Generated word problems in the place of GSM8K: two to four steps with small numbers, worked out line by line."""

from __future__ import annotations

import random

_NAMES = "Tom Anna Paul Lena Omar Ruth Hugo Ida Felix Nora Karl Sara".split()
_THINGS = "apples books coins stamps eggs shells cards nuts".split()
_TASK = "As an expert problem solver solve step by step the following mathematical question.\n"
LARGEST = 99


def exchange(chance: random.Random) -> tuple[str, str, int]:
    """Return a question, its solution, and the number that is right."""
    while True:
        total = chance.randint(3, 15)
        name, other = chance.sample(_NAMES, 2)
        thing = chance.choice(_THINGS)
        sentences, lines = [f"{name} has {total} {thing}."], []
        for _ in range(chance.randint(2, 4)):
            sentence, line, total = _step(chance, name, other, thing, total)
            sentences.append(sentence)
            lines.append(line)
        if 0 <= total <= LARGEST:
            question = f"{_TASK}Q: {' '.join(sentences)} How many {thing} does {name} have?\nA:"
            return question, f"{' '.join(lines)} The answer is {total}.", total


def _step(chance: random.Random, name: str, other: str, thing: str, total: int) -> tuple[str, str, int]:
    """Return what happens, how it is reckoned, and how many there are then."""
    few, factor = chance.randint(2, 9), chance.randint(2, 3)
    kind = chance.choice(["more", "less", "times"])
    if kind == "less" and few <= total:
        sentence = chance.choice([f"{name} gives {few} to {other}.", f"{name} loses {few}."])
        return sentence, f"{total} - {few} = {total - few}.", total - few
    if kind == "times" and 1 < total * factor <= LARGEST:
        word = {2: "two", 3: "three"}[factor]
        sentence = f"Then {name} has {word} times as many."
        return sentence, f"{total} x {factor} = {total * factor}.", total * factor
    sentence = chance.choice([f"{name} buys {few} more.", f"{other} gives {name} {few}."])
    return sentence, f"{total} + {few} = {total + few}.", total + few
