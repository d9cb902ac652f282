"""Words that replies use: numbers, ordinals, yes and no and directions in several languages,
refusals.

A language is added here: its words for yes, no, left, right, true and false, and its ordinals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_UNITS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBERS = {word: str(number) for number, word in enumerate(_UNITS)}
NUMBERS |= {tens: str(10 * ten) for ten, tens in enumerate(_TENS, 2)}
NUMBERS |= {
    f"{tens}{join}{_UNITS[unit]}": str(10 * ten + unit)
    for ten, tens in enumerate(_TENS, 2)
    for join in "- "
    for unit in range(1, 10)
}
NUMBERS |= {
    "两": "2",
    **{sign: str(number) for number, sign in enumerate("零一二三四五六七八九十")},
}
"""Number words in English from zero to ninety-nine, and signs in Chinese and Japanese up to ten, as
digits."""
ORDINALS = {
    word: number
    for number, word in enumerate(("first", "second", "third", "fourth", "fifth", "sixth"), 1)
}
"""Ordinals as numbers from 1."""
FOREIGN_ORDINALS = {
    1: r"primera imagen|premi[èe]re image|erste bild|prima immagine|primeira imagem",
    2: r"segunda imagen|(?:deuxi[èe]m|second)e image|zweite bild|seconda immagine|segunda imagem",
    3: r"tercera imagen|troisi[èe]me image|dritte bild|terza immagine|terceira imagem",
    4: r"cuarta imagen|quatri[èe]me image|vierte bild|quarta immagine|quarta imagem",
}
"""Patterns of "first image" and so on in other languages with Latin letters, by number."""
YES = (
    "yes",
    "yeah",
    "yep",
    "ja",
    "oui",
    "sí",
    "sì",
    "sim",
    "da",
    "tak",
    "evet",
    "да",
    "\u03bd\u03b1\u03b9",
    "نعم",
    "हाँ",
    "(?<!不)是的",
    "(?<!不)是",
    "(?<!不)对",
    "(?<!不)正确",
    "はい",
    "예",
    "네",
)
NO = (
    "no",
    "nope",
    "nein",
    "non",
    "não",
    "nie",
    "nee",
    "hay\u0131r",
    "нет",
    "όχι",
    "لا",
    "नहीं",
    "不是",
    "否",
    "不对",
    "不",
    "没有",
    "いいえ",
    "아니요",
    "아니오",
)
_OF_ANSWERS = r"(?! (?:answer|choice|option|response)\b)"
TRUE = (
    "true",
    r"(?<!\w['-])(?<!-)t(?!-)",
    f"correct{_OF_ANSWERS}",
    f"(?<!the )right(?!-hand){_OF_ANSWERS}",
    "wahr",
    "richtig",
    "vrai",
    "verdadero",
    "vero",
    "верно",
    "правда",
    "(?<!不)正确",
    "真",
    "(?<!不)对(?!于)",
    "正しい",
    "참",
)
FALSE = (
    "false",
    r"(?<!\w['-])(?<!-)f(?!-)",
    "untrue",
    "incorrect",
    "wrong",
    "falsch",
    "faux",
    "falso",
    "неверно",
    "ложь",
    "不正确",
    "错误",
    "不对",
    "假",
    "誤り",
    "거짓",
)
_THAT = "(?:that|it|this|(?:the|this|that) (?:statement|description|claim|relation))(?:'s| is)"
AGREED = (
    "i (?:think|believe|would say) so",
    f"{_THAT} (?:right|correct|true)",
    "it is",
    "correct",
    "true",
    "indeed",
    "(?:absolutely|definitely|certainly|of course)(?! not)",
)
DENIED = (
    "i (?:don't|do not) (?:think|believe) so",
    "i think not",
    "(?:absolutely|definitely|certainly|of course) not",
    "not (?:at all|really|quite|exactly)",
    "it(?: is|'s) not",
    "it isn't",
    "by no means",
    f"{_THAT} (?:wrong|incorrect|false|untrue|not (?:right|correct|true|so|the case))",
    "incorrect",
    "false",
    "wrong",
)
"""What stands for no, as AGREED for yes, at the beginning of a reply."""
LEFT = (
    "left(?:wards?)?",
    "left-?hand side",
    "links",
    "(?:à |la )?gauche",
    "(?:a la )?izquierda",
    "(?:à )?esquerda",
    "(?:a )?sinistra",
    "в?лево",
    "слева",
    "向左",
    "左",
    "왼쪽",
)
RIGHT = (
    "right(?:wards?)?",
    "right-?hand side",
    "rechts",
    "(?:à |la )?droite",
    "(?:a la )?derecha",
    "(?:à )?direita",
    "(?:a )?destra",
    "в?право",
    "справа",
    "向右",
    "右",
    "오른쪽",
)
REFUSED = re.compile(
    r"\b(?:sorry|apologi[sz]e|unable|as an ai|just an ai|i'm an ai)\b|"
    r"\b(?:cannot|can't|can not|won't|not able to|unable to|don't|do not|couldn't)\s+(?:\w+ly\s+)?"
    r"(?:assist|help|answer|provide|comply|view|see(?! an?y?\b)|access|process|"
    r"analy[sz]e|have (?:access|the ability|personal)|"
    r"fulfill|identify|engage|make (?:an? )?(?:assumptions?|definitive)|make"
    r" a|assess|determine|tell|select|choose)",
    re.I,
)
"""Words with which a model refuses to answer."""


def any_word(words: Sequence[str]) -> str:
    """The pattern of any of the words; they stand between word boundaries, except in Chinese,
    Japanese and Korean."""
    joined = [word for word in words if re.search("[\u3000-\ud7af]", word)]
    spaced = [word for word in words if word not in joined]
    anywhere = "|".join(sorted(joined, key=len, reverse=True))
    return rf"(?:(?<!\w)(?:{'|'.join(sorted(spaced, key=len, reverse=True))})(?!\w)|{anywhere})"


def longest_word(text: str) -> str:
    """The longest word of a text, for `may_hold`: one in ASCII where there is one."""
    rank = len if text.isascii() else (lambda word: (word.isascii(), len(word)))
    return max(text.split(), key=rank, default="")


def may_hold(text: str, word: str) -> bool:
    """Whether a text may hold a word in whatever case: True also where a pattern alone can tell."""
    return not word.isascii() or word.lower() in text.lower() or ALSO_ASCII.search(text) is not None


ALSO_ASCII = re.compile("[\u0130\u0131\u017f\u212a]")
"""The letters beyond ASCII that a pattern takes for i, s and k where it takes no heed of case."""
