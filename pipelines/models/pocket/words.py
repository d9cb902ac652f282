"""Pocket's vocabulary, and how a text becomes tokens and tokens a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

SPECIAL = ("<pad>", "<unknown>", "<line>", "<answer>", "<end>")
PAD, UNKNOWN, LINE, ANSWER, END = range(len(SPECIAL))
LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
NUMBERS = tuple(str(number) for number in range(101))
TEXT = """
    a about above across all along among an and answer any are as at be below between big bigger
    black blue bottom bright but by can cell cells center choice choices choose circle circled
    circles closely color colored colors column columns complete correct count crescent crescents
    cross crosses dark describe diamond diamonds did different digit digits divide do does drawn
    each equal equally every false figure final find first five following for form four from give
    given gray green grid has have heart hearts height high higher highest how image image's images
    in inside into is it its kind large larger last left letter letters lie lies line list locate
    location look looks lower lowest many mark marked marker marks middle most name named neither no
    none not number numbers object objects of on one ones only option options or orange other out
    outlined over part parts percent pick picture place point pointed position present purple
    question read reads red reply right ring ringed row rows same say says second see seen select
    shape shapes show shown shows six size sizes small smaller so sort square squares star stars
    state step symbol symbols take tall tell than that the their them there these they thing things
    think third this three tile tiles to top triangle triangles true two type under up upper us
    vertical view views visible was what where whether which white whole wide width with within word
    words write written x y yellow yes you your zero
"""
WORDS = tuple(re.findall(r"\S+", TEXT))
VOCABULARY = (*SPECIAL, ",", *LETTERS, *NUMBERS, *sorted(set(WORDS)))
NUMBER_OF = {word: number for number, word in enumerate(VOCABULARY)}
LONGEST = 72  # tokens of a text that are read; of a longer one the last
PIECE = re.compile(r"\n+|[A-Za-z]+(?:'s)?|\d+")


def read_words(text: str) -> list[int]:
    """The numbers of the last words of a text; punctuation is passed over, unknown words in a row
    are one.

    A capital that stands alone is a letter, so that the choice A is not the article.
    """
    numbers: list[int] = []
    for piece in PIECE.findall(text.strip()):
        number = (
            LINE
            if piece[0] == "\n"
            else NUMBER_OF.get(piece, NUMBER_OF.get(piece.lower(), UNKNOWN))
        )
        if not (numbers and number == numbers[-1] and number in (LINE, UNKNOWN)):
            numbers.append(number)
    return numbers[-LONGEST:]


def reply_words(text: str) -> list[int]:
    """The tokens of a reply with its end; none where a word is not in the vocabulary."""
    pieces = [
        piece
        for part in text.replace(",", " , ").split()
        for piece in PIECE.findall(part) or [part]
    ]
    numbers = [NUMBER_OF.get(piece) for piece in pieces]
    return (
        []
        if None in numbers or not numbers
        else [number for number in numbers if number is not None] + [END]
    )


def write_words(numbers: Iterable[int]) -> str:
    """The text of tokens, without special ones."""
    words: Sequence[str] = [VOCABULARY[number] for number in numbers if number >= len(SPECIAL)]
    return " ".join(words).replace(" ,", ",")
