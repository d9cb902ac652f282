"""Letters of other alphabets, and symbols, that look like Latin letters: a Cyrillic Ve, a squared
B.

Models write them instead of the letter of a choice. They stay unchanged inside words and, in a text
of their own language, wherever they may be words of their own: a lone Ve is Russian for "in".
"""

from __future__ import annotations

import re
from string import ascii_uppercase

_ALPHABETS = (
    (
        "\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u041a\u041c\u041e\u0420\u0405\u0422\u0425\u0423",
        "ABCEHIJKMOPSTXY",
    ),  # Cyrillic
    ("\u0430\u0441\u0435\u0456\u0458\u043e\u0440\u0455\u0445\u0443", "aceijopsxy"),
    (
        "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03f9",
        "ABEZHIKMNOPTYXC",
    ),  # Greek
    ("\u13aa\u13f4\u13df\u13a0\u13ac\u13c0\u13bb", "ABCDEGH"),  # Cherokee
    ("\ua4ee\ua4d0\ua4da\ua4d3\ua4f0\ua4dd\ua4d6\ua4e7", "ABCDEFGH"),  # Lisu
    ("\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c", "ABCDEFGH"),  # small capitals
)
_LATIN_LETTERS = str.maketrans(
    {sign: letter for pair in _ALPHABETS for sign, letter in zip(*pair, strict=True)}
)
_LETTER_SYMBOLS = str.maketrans(
    {
        chr(first + number): letter
        for first in (0x1F150, 0x1F170)  # in black circles, and in black squares
        for number, letter in enumerate(ascii_uppercase)
    }
    | {0xFE0F: None}
)
_FLAG_LETTER = "[\U0001f1e6-\U0001f1ff]"
_LONE_FLAG_LETTER_PATTERN = re.compile(f"(?<!{_FLAG_LETTER}){_FLAG_LETTER}(?!{_FLAG_LETTER})")
_ANY_LETTER_SYMBOL_PATTERN = re.compile("[\U0001f150-\U0001f1ff]")
_LOOK_ALIKES = f"[{''.join(map(chr, _LATIN_LETTERS))}]"
_ANY_LOOK_ALIKE_PATTERN = re.compile(_LOOK_ALIKES)
_LONE_LOOK_ALIKE_PATTERN = re.compile(rf"(?<![\w'-]){_LOOK_ALIKES}(?![\w'-])")
_FOREIGN_WORD_PATTERN = re.compile("[\u0370-\u04ff]{2,}")  # Greek or Cyrillic
_WORDS_BEFORE_CHOICE = (  # the second line is Russian, the third Greek
    r"(?:is|be|answer|option|choice|point|box"
    r"|\u043e\u0442\u0432\u0435\u0442\w*|\u0432\u0430\u0440\u0438\u0430\u043d\u0442\w*"
    r"|\u03b1\u03c0\u03ac\u03bd\u03c4\u03b7\u03c3\u03b7|\u03b5\u03af\u03bd\u03b1\u03b9)"
)
_LOOK_ALIKE_ANSWER_PATTERN = re.compile(  # in brackets, or as the answer
    rf"[(\[{{<]\s*{_LOOK_ALIKES}\s*[)\]}}>]"
    rf"|^[ \t]*{_LOOK_ALIKES}(?=\)|[^\w\n]*$)"
    rf"|(?:[:=]|\b{_WORDS_BEFORE_CHOICE})\s{{0,3}}[\"'(]?{_LOOK_ALIKES}(?=[\"')]?\s?(?:[.,;:!]|$))",
    re.I | re.M,
)


def to_latin(text: str) -> str:
    """Replace each look-alike that stands for a Latin letter, in an NFKC text, by that letter."""
    if _ANY_LETTER_SYMBOL_PATTERN.search(text):
        text = text.translate(_LETTER_SYMBOLS)
        text = _LONE_FLAG_LETTER_PATTERN.sub(
            lambda flag: chr(ord(flag[0]) - 0x1F1E6 + ord("A")), text
        )
    if not _ANY_LOOK_ALIKE_PATTERN.search(text):
        return text
    lone = (
        _LOOK_ALIKE_ANSWER_PATTERN
        if _FOREIGN_WORD_PATTERN.search(text)
        else _LONE_LOOK_ALIKE_PATTERN
    )
    return lone.sub(
        lambda match: _LONE_LOOK_ALIKE_PATTERN.sub(
            lambda sign: sign[0].translate(_LATIN_LETTERS), match[0]
        ),
        text,
    )
