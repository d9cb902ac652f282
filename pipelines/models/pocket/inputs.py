"""How texts and pictures enter Pocket's network: its vocabulary, and the square into which a
picture is fitted."""

from __future__ import annotations

import re
from collections.abc import Iterable

import cv2
import numpy as np

from looktwice.pipelines.picture import Pixels

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
        number = NUMBER_OF.get(piece, NUMBER_OF.get(piece.lower(), UNKNOWN))
        number = LINE if piece[0] == "\n" else number
        if numbers[-1:] != [number] or number not in (LINE, UNKNOWN):
            numbers.append(number)
    return numbers[-LONGEST:]


def reply_words(text: str) -> list[int]:
    """The tokens of a reply with its end; none where a word is not in the vocabulary."""
    numbers: list[int] = []
    for part in text.replace(",", " , ").split():
        for piece in PIECE.findall(part) or [part]:
            if piece not in NUMBER_OF:
                return []
            numbers.append(NUMBER_OF[piece])
    return [*numbers, END] if numbers else []


def write_words(numbers: Iterable[int]) -> str:
    """The text of tokens, without special ones."""
    words = [VOCABULARY[number] for number in numbers if number >= len(SPECIAL)]
    return " ".join(words).replace(" ,", ",")


SIDE = 128  # pixels of the network's square input
STEP = 8  # pixels of the input that one place of the encoder stands for
CELLS = SIDE // STEP
GREY = 128


def fit_pixels(pixels: Pixels) -> tuple[Pixels, float, tuple[int, int]]:
    """The input SIDE x SIDE x 3 made of RGB uint8 pixels, the scale, and the left and top edge of
    the picture in it."""
    height, width = pixels.shape[:2]
    scale = SIDE / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    shrinks = scale < 1
    sized = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    if size == (SIDE, SIDE):
        return np.asarray(sized, np.uint8), scale, (0, 0)
    left, top = (SIDE - size[0]) // 2, (SIDE - size[1]) // 2
    whole = np.full((SIDE, SIDE, 3), GREY, np.uint8)
    whole[top : top + size[1], left : left + size[0]] = sized
    return whole, scale, (left, top)
