"""What the mini pictures show, and their captions: a digit in one colour on a ground of another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COLOURS = {
    "red": (225, 40, 40),
    "green": (40, 165, 60),
    "blue": (45, 75, 225),
    "yellow": (240, 215, 50),
    "purple": (145, 50, 175),
    "white": (245, 245, 245),
    "black": (25, 25, 25),
}
TEMPLATES = (
    "a {figure} {digit} on a {ground} ground",
    "the digit {digit} in {figure}, painted on {ground} paper",
    "{ground} paper with a handwritten {figure} {digit}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Motif:
    """The content of a picture: a digit, and indices into `COLOURS`."""

    digit: int
    figure: int
    ground: int

    def caption(self, template: int) -> str:
        """Return it in words, one of three ways."""
        names = list(COLOURS)
        return TEMPLATES[template].format(digit=WORDS[self.digit], figure=names[self.figure], ground=names[self.ground])


def all_captions() -> list[tuple[Motif, str]]:
    """Return every motif in every wording: 1,260 captions."""
    motifs = [
        Motif(digit=digit, figure=figure, ground=ground)
        for digit, (figure, ground) in product(range(len(WORDS)), permutations(range(len(COLOURS)), 2))
    ]
    return [(motif, motif.caption(template)) for motif in motifs for template in range(len(TEMPLATES))]


def motif_of(caption: str) -> Motif:
    """Return the motif of a caption.

    Raises:
        ValueError: it is not one of `all_captions`.
    """
    try:
        return _MOTIFS[caption]
    except KeyError:
        raise ValueError(f"no caption of a digit: {caption!r}") from None


_MOTIFS = {caption: motif for motif, caption in all_captions()}
