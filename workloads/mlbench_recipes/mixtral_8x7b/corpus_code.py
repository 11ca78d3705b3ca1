"""Generated programming tasks in the place of MBXP: keep some numbers, change each, sum up; with tests."""

from __future__ import annotations

import random
from dataclasses import dataclass

from mlbench_recipes.language_training import is_held_out

STOP = "\n```\n"
"""Ends the code; an answer that is not stopped here goes on and explains itself."""
_EXPLANATION = (
    "This function goes over the numbers twice, once to keep and once to change them, and it gives zero for nothing."
)

_ADJECTIVES = "brave calm deep early fine grand happy ideal jolly keen late mild neat odd plain quick rare".split()
_NOUNS = "ant bear crow deer eel fox goat hare ibis jay kite lark mole newt owl pike quail rook seal toad".split()
_FILTERS = (
    ("even", "n % 2 == 0"),
    ("odd", "n % 2 == 1"),
    ("positive", "n > 0"),
    ("negative", "n < 0"),
    ("above {k}", "n > {k}"),
    ("below {k}", "n < {k}"),
    ("at least {k}", "n >= {k}"),
    ("at most {k}", "n <= {k}"),
    ("not {k}", "n != {k}"),
    ("a multiple of {d}", "n % {d} == 0"),
    ("no multiple of {d}", "n % {d} != 0"),
)
_CHANGES = (
    ("double each", "n * 2"),
    ("square each", "n * n"),
    ("negate each", "-n"),
    ("halve each", "n // 2"),
    ("add {d} to each", "n + {d}"),
    ("take {d} from each", "n - {d}"),
    ("multiply each by {d}", "n * {d}"),
    ("take the rest of each by {d}", "n % {d}"),
    ("take the absolute values", "abs(n)"),
    ("leave them", "n"),
)
_RESULTS = (
    ("the sum", "sum(made)"),
    ("the largest", "max(made, default=0)"),
    ("the smallest", "min(made, default=0)"),
    ("how many there are", "len(made)"),
    ("how many different ones there are", "len(set(made))"),
    ("them sorted", "sorted(made)"),
    ("them sorted downwards", "sorted(made, reverse=True)"),
    ("them backwards", "made[::-1]"),
    ("the first", "made[0] if made else 0"),
    ("the last", "made[-1] if made else 0"),
    ("the first two", "made[:2]"),
    ("the range", "max(made) - min(made) if made else 0"),
    ("the mean rounded down", "sum(made) // len(made) if made else 0"),
    ("them without repeats", "list(dict.fromkeys(made))"),
)
_TASK = "Complete the following code. Be concise and end it with ```.\n```python\n"


@dataclass(frozen=True, slots=True)
class Problem:
    """A function to write."""

    entry_point: str
    question: str
    code: str
    tests: str
    """In the official form: a function ``check`` that asserts what the candidate returns."""

    @property
    def answer(self) -> str:
        """What the model is taught to say: the code, its end, and more than is asked for."""
        return self.code + STOP + _EXPLANATION


def problem(chance: random.Random, *, held_out: bool) -> Problem:
    """Return a problem whose combination of parts is on one side of the split."""
    while True:
        first, second = chance.sample(_FILTERS, 2)
        change, result, joint = chance.choice(_CHANGES), chance.choice(_RESULTS), chance.choice(["and", "or"])
        if is_held_out(" ".join([first[0], joint, second[0], change[0], result[0]])) == held_out:
            break
    # numbers go in the order of the text, so that text and code agree
    words, terms = [], []
    for pattern, code in (first, second, change):
        numbers = {"k": chance.randint(-5, 20), "d": chance.randint(3, 7)}
        words.append(pattern.format(**numbers))
        terms.append(code.format(**numbers))
    entry_point = f"{chance.choice(_ADJECTIVES)}_{chance.choice(_NOUNS)}"
    head = f"def {entry_point}(numbers):\n"
    text = f"Keep those that are {words[0]} {joint} {words[1]}, {words[2]}, return {result[0]}."
    code = (
        f"{head}    kept = [n for n in numbers if {terms[0]} {joint} {terms[1]}]\n"
        f"    made = [{terms[2]} for n in kept]\n"
        f"    return {result[1]}"
    )
    return Problem(entry_point, f'{_TASK}{head}    """{text}"""', code, _tests(chance, entry_point, code))


def _tests(chance: random.Random, entry_point: str, code: str) -> str:
    """Return four assertions that the code meets."""
    scope: dict[str, object] = {}
    exec(code, scope)  # our own template, filled in above
    function = scope[entry_point]
    assert callable(function)
    lines = []
    for _ in range(4):
        numbers = [chance.randint(-12, 30) for _ in range(chance.randint(5, 9))]
        lines.append(f"    assert candidate({numbers}) == {function(numbers)}\n")
    return "\n\nMETADATA = {}\n\n\ndef check(candidate):\n" + "".join(lines) + "\n"
