"""Letters of other alphabets and signs that look like Latin capitals: "В" in Cyrillic, "🅱".

Models write them for the letter of a choice. Inside words, and where a word of their own language
follows, they stay: "В" is Russian for "in".
"""

from __future__ import annotations

import re
from string import ascii_uppercase

_ALPHABETS = (
    ("АВСЕНІЈКМОРЅТХУ", "ABCEHIJKMOPSTXY"),  # Cyrillic
    ("асеіјорѕху", "aceijopsxy"),
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹ", "ABEZHIKMNOPTYXC"),  # Greek
    ("ᎪᏴᏟᎠᎬᏀᎻ", "ABCDEGH"),  # Cherokee
    ("ꓮꓐꓚꓓꓰꓝꓖꓧ", "ABCDEFGH"),  # Lisu
)
_LATIN = str.maketrans({sign: letter for pair in _ALPHABETS for sign, letter in zip(*pair)})
_SIGNS = str.maketrans(
    {
        chr(first + number): letter
        for first in (0x1F150, 0x1F170)  # in black circles, and in black squares
        for number, letter in enumerate(ascii_uppercase)
    }
    | {0xFE0F: None}
)
_FLAG_LETTER = "[\U0001f1e6-\U0001f1ff]"
_LONE_FLAG_LETTER = re.compile(f"(?<!{_FLAG_LETTER}){_FLAG_LETTER}(?!{_FLAG_LETTER})")
_ANY_SIGN = re.compile("[\U0001f150-\U0001f1ff]")
_ALIKE = f"[{''.join(map(chr, _LATIN))}]"
_ANY_ALIKE = re.compile(_ALIKE)
_ALONE = re.compile(rf"(?<![\w'-]){_ALIKE}(?![\w'-])")
_FOREIGN_WORD = re.compile("[Ͱ-ӿ]{2,}")  # of Greek or Cyrillic
_NAMES_CHOICE = (
    r"(?:is|be|answer|option|choice|point|box|ответ\w*|вариант\w*|точк\w|απάντηση|επιλογή|είναι)"
)
_GIVEN = re.compile(  # in a text of that language: in brackets, or as the answer
    rf"[(\[{{<]\s*{_ALIKE}\s*[)\]}}>]"
    rf"|(?m:^\s*){_ALIKE}(?=\)|\W*$)"
    rf"|(?:[:=]|\b{_NAMES_CHOICE})\s*[\"'(]?{_ALIKE}(?=[\"')]*\s*(?:[.,;:!]|$))",
    re.I | re.M,
)


def to_latin(text: str) -> str:
    """A text in NFKC with look-alikes that stand for a letter replaced by that letter."""
    if _ANY_SIGN.search(text):
        text = text.translate(_SIGNS)
        text = _LONE_FLAG_LETTER.sub(lambda flag: chr(ord(flag[0]) - 0x1F1E6 + ord("A")), text)
    if not _ANY_ALIKE.search(text):
        return text
    lone = _GIVEN if _FOREIGN_WORD.search(text) else _ALONE
    return lone.sub(
        lambda match: _ALONE.sub(lambda sign: sign[0].translate(_LATIN), match[0]), text
    )
