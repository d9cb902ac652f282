"""Words that replies use: numbers, ordinals, yes, no and directions in several languages, and
refusals; also the words that make a choice the answer in each subtask of BLINK.

To add a language, add its words for yes, no, left, right, true and false, and its ordinals here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from looktwice.pipelines.counted import NUMBER_WORDS

Pattern = re.Pattern[str]
Match = re.Match[str]
Texts = tuple[str, ...]
"""A sequence of sentences, or of the texts of choices."""

_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBERS = {word: str(number) for number, word in enumerate(NUMBER_WORDS)}
NUMBERS |= {tens: str(10 * ten) for ten, tens in enumerate(_TENS, 2)}
NUMBERS |= {
    f"{tens}{join}{NUMBER_WORDS[unit]}": str(10 * ten + unit)
    for ten, tens in enumerate(_TENS, 2)
    for join in "- "
    for unit in range(1, 10)
}
NUMBERS |= {
    "两": "2",
    **{sign: str(number) for number, sign in enumerate("零一二三四五六七八九十")},
}
"""English number words from zero to ninety-nine, and Chinese and Japanese numerals up to ten, with
the numbers in digits."""
NUMBER_WORD = "|".join(word for word in NUMBERS if word.isascii() and word.isalpha())
SCALE_WORD = "hundred|thousand|million"
ORDINALS = {
    word: number
    for number, word in enumerate(("first", "second", "third", "fourth", "fifth", "sixth"), 1)
}
"""The ordinals with their numbers, from 1."""
FOREIGN_ORDINALS = {
    1: r"primera imagen|premi[èe]re image|erste bild|prima immagine|primeira imagem",
    2: r"segunda imagen|(?:deuxi[èe]m|second)e image|zweite bild|seconda immagine|segunda imagem",
    3: r"tercera imagen|troisi[èe]me image|dritte bild|terza immagine|terceira imagem",
    4: r"cuarta imagen|quatri[èe]me image|vierte bild|quarta immagine|quarta imagem",
}
"""Patterns for "first image" and so on in other languages with Latin letters, by the image's
number."""
YES_WORDS = (
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
NO_WORDS = (
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
_NOT_OF_ANSWERS = r"(?! (?:answer|choice|option|response)\b)"
TRUE_WORDS = (
    "true",
    r"(?<!\w['-])(?<!-)t(?!-)",
    f"correct{_NOT_OF_ANSWERS}",
    f"(?<!the )right(?!-hand){_NOT_OF_ANSWERS}",
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
FALSE_WORDS = (
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
_CLAIM_SUBJECT = (
    "(?:that|it|this|(?:the|this|that) (?:statement|description|claim|relation))(?:'s| is)"
)
AGREEMENTS = (
    "i (?:think|believe|would say) so",
    f"{_CLAIM_SUBJECT} (?:right|correct|true)",
    "it is",
    "correct",
    "true",
    "indeed",
    "(?:absolutely|definitely|certainly|of course)(?! not)",
)
DENIALS = (
    "i (?:don't|do not) (?:think|believe) so",
    "i think not",
    "(?:absolutely|definitely|certainly|of course) not",
    "not (?:at all|really|quite|exactly)",
    "it(?: is|'s) not",
    "it isn't",
    "by no means",
    f"{_CLAIM_SUBJECT} (?:wrong|incorrect|false|untrue|not (?:right|correct|true|so|the case))",
    "incorrect",
    "false",
    "wrong",
)
"""Phrases that mean no at the beginning of a reply; those in AGREEMENTS mean yes."""
LEFT_WORDS = (
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
RIGHT_WORDS = (
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
REFUSAL_PATTERN = re.compile(
    r"\b(?:sorry|apologi[sz]e|unable|as an ai|just an ai|i'm an ai)\b|"
    r"\b(?:cannot|can't|can not|won't|not able to|unable to|don't|do not|couldn't)\s+(?:\w+ly\s+)?"
    r"(?:assist|help|answer|provide|comply|view|see(?! an?y?\b)|access|process|"
    r"analy[sz]e|have (?:access|the ability|personal)|"
    r"fulfill|identify|engage|make (?:an? )?(?:assumptions?|definitive)|make"
    r" a|assess|determine|tell|select|choose)",
    re.I,
)
"""Words by which a model refuses to answer."""


class _LazyPattern:
    """A case-insensitive pattern, compiled on first use: most commands need few of the many."""

    def __init__(self, source: str) -> None:
        self._source = source

    @cached_property
    def _compiled(self) -> Pattern:
        return re.compile(self._source, re.I)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled pattern, and keep it for the next use."""
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._compiled, name)
        setattr(self, name, value)
        return value


def pattern(*parts: str) -> Pattern:
    """Make a case-insensitive pattern that matches any of the parts."""
    return cast(Pattern, _LazyPattern("|".join(parts)))


def make_word_pattern(words: Sequence[str]) -> str:
    """Return a pattern that matches any of the words, between word boundaries except in Chinese,
    Japanese and Korean."""
    joined = [word for word in words if re.search("[\u3000-\ud7af]", word)]
    spaced = [word for word in words if word not in joined]
    anywhere = "|".join(sorted(joined, key=len, reverse=True))
    return rf"(?:(?<!\w)(?:{'|'.join(sorted(spaced, key=len, reverse=True))})(?!\w)|{anywhere})"


def find_longest_word(text: str) -> str:
    """Return the longest word of a text, for `may_contain`, preferably in ASCII."""
    rank = len if text.isascii() else (lambda word: (word.isascii(), len(word)))
    return max(text.split(), key=rank, default="")


def may_contain(text: str, word: str) -> bool:
    """Return whether a text may contain a word, ignoring case; True if only a pattern can
    decide."""
    return not word.isascii() or word.lower() in text.lower() or has_letter_matching_ascii(text)


MATCHES_ASCII_PATTERN = re.compile("[\u0130\u0131\u017f\u212a]")
"""Non-ASCII letters that a case-insensitive pattern matches with i, s and k."""


_OTHER_WORD_PATTERN = pattern(rf"[ .]*(?!(?:an?|half|dozens?|{SCALE_WORD}|{NUMBER_WORD})\b)[a-z]")


def begins_without_number(text: str) -> bool:
    """Return whether a text begins with a word that cannot begin a number."""
    return _OTHER_WORD_PATTERN.match(text) is not None


def has_letter_matching_ascii(text: str) -> bool:
    """Return whether a text has a non-ASCII letter that a case-insensitive pattern matches with an
    ASCII letter, so that searching the lowercase text is not enough."""
    return not text.isascii() and MATCHES_ASCII_PATTERN.search(text) is not None


@dataclass(frozen=True)
class AnswerWords:
    """Words that describe the choice that is the answer: decisive ones (`strong_words`) and weaker
    ones (`weak_words`).

    `opposite_words` words describe a wrong choice ("farther"). `choice_follows` is True if the
    choice comes after its words ("the camera moves to the left") and is never their subject;
    `allows_equality` is True if a choice may mean that two others do not differ ("about the same").
    The group `letter` of `claim_pattern` is the answer ("A is in front of B").
    """

    strong_words: Pattern
    weak_words: Pattern | None = None
    opposite_words: Pattern | None = None
    choice_follows: bool = False
    allows_equality: bool = False
    claim_pattern: Pattern | None = None


_FITTING_WORDS = (
    "likely|probable|appropriate|suitable|plausible|logical|accurate|similar|precise|fitting"
    "|consistent|closely"
    "|reasonable|accurately|compatible|aligned|correct|precisely|appropriately|effectively"
    "|seamless(?:ly)?|logically"
    "|visually|tightly|authentic|realistic|natural|candid|genuine|convincing|photorealistic"
    "|lifelike|believable"
)
_BEST_WORDS = (
    rf"\b(?:most|more)\s+(?:\w+ly\s+)?(?:{_FITTING_WORDS})\b",
    r"\b(?:best|better|correct(?:ly)?|closest(?! (?:alternative|rival|second)))\b",
    r"\bright (?:answer|choice|one|match)\b",
    r"\bhighest (?:likelihood|probability|chance)\b",
)
_VIEWER_WORDS = (
    r"(?! to\b(?! the (?:camera|viewer|lens|photographer|front|foreground|observer)| us\b| me\b|"
    r" you\b))"
)
_TAG_START = "(?:the )?\u27e6"
_MOTION_STEMS = "mov|rotat|pann?|shift|orbit|turn|circl|travel|swe|going|goes|motion|direction"
_CORRESPONDENCE_WORDS = AnswerWords(
    pattern(r"\bcorrespond(?:s|ing)?\b", r"\bmatch(?:es|ing)?\b", *_BEST_WORDS),
    pattern(
        r"\bsame (?:\w+"
        r" )?(?:point|location|position|spot|part|place|feature|corner|area|function)\b",
        r"\b(?:similar|aligns?|equivalent|represents)\b",
    ),
    claim_pattern=pattern(
        r"\u27e6(?P<letter>[A-Z])\u27e7[^\u27e6\u27e7.,;\n]{0,40}\b(?:corresponds|matches)(?: to|"
        r" with)?(?: the)?"
        r" (?:\W?REF\b|reference\b)"
    ),
)
_SUBTASK_WORDS: Mapping[str, AnswerWords] = {
    "Relative_Depth": AnswerWords(
        pattern(
            rf"\b(?:closer|closest|nearer|nearest)\b{_VIEWER_WORDS}",
            r"\b(?:less|shorter|smaller|lower|shortest|smallest) (?:depth|distance)\b",
            r"\b(?:depth|distance) is (?:less|smaller|shorter)\b",
            r"(?<=\u27e7 is )(?:less|smaller|shorter) than the (?:depth|distance)\b",
        ),
        pattern(r"\bforeground\b", r"\bnear (?:bank|side|edge|end)\b"),
        pattern(
            r"\b(?:farther|further|farthest|furthest|more distant|is distant|background"
            r"|(?:greater|larger|longer) distance|far (?:bank|side|edge|end))\b",
            rf"\bbehind(?= {_TAG_START})",
            r"(?:\bnot|n't) (?:as|so) (?:close|near)\b",
        ),
        claim_pattern=pattern(
            r"(?:\u27e6(?=[A-Z]\u27e7[^\u27e6\u27e7.,;\n]{0,40}\bin front of (?:the )?\u27e6)"
            r"|\b(?:camera|viewer|observer|photographer|lens|we) (?:is|are)"
            r" (?:\w+ )?(?:closer|nearer) to (?:the )?\u27e6)"
            r"(?P<letter>[A-Z])\u27e7(?:[^\u27e6\u27e7.,;\n]{0,40}\bin front of)?"
        ),
    ),
    "Relative_Reflectance": AnswerWords(
        pattern(r"\b(?:darker|darkest)\b"),
        opposite_words=pattern(
            r"\b(?:lighter|lightest|brighter)\b", r"(?:\bnot|n't) (?:as|so) dark\b"
        ),
        allows_equality=True,
    ),
    "Object_Localization": AnswerWords(
        pattern(
            *_BEST_WORDS,
            r"\b(?:more|most)\s+(?:\w+\s+)?(?:accurate|precise|tight|close)\w*",
            r"\b(?:tighter|closer(?! to))\b",
        ),
        pattern(
            r"\baccurately\s+\w+",
            r"\bperfectly\b",
            r"\bfits? (?:closely|tightly)",
            r"\b(?:tightly|fully|entirely|completely)"
            r" (?:fits|encloses|covers|contains|includes|surrounds|captures)\b",
        ),
        pattern(
            r"\b(?:less|inaccurate(?:ly)?)\b|\btoo"
            r" (?:large|big|small|loose|wide|narrow|tall|short)\b",
            r"\b(?:misses|cuts off|cuts out|leaves out|excludes|only (?:a )?part)\b",
            r"\b(?:does not|doesn't) (?:\w+ly )?(?:include|cover|contain|enclose|capture)\b",
        ),
    ),
    "Art_Style": AnswerWords(
        pattern(
            r"\b(?:shares?|sharing|has|have|in|of|with|exhibits?|follows?"
            r"|matches)\s+(?:\w+\s+){0,2}?(?:the\s+)?"
            r"(?:same|similar|closest)\s+(?:\w+\s+){0,3}?style\b",
            r"\b(?:same|similar) (?:\w+ )?style\b",
            r"\b(?:most|more) (?:closely|similar|likely|appropriate)\b",
            r"\bclos(?:er|est)\b(?! to\b(?! the (?:reference|first|style)| it\b| that\b))",
            r"\bbest match|\bcorrect\b|\bshares\b",
        ),
        pattern(r"\b(?:aligns?|matches|similar|consistent|shares?)\b"),
    ),
    "Jigsaw": AnswerWords(
        pattern(
            *_BEST_WORDS,
            r"\b(?:is|be) (?:the|likely the|probably the) missing"
            r" (?:part|piece|section|portion|corner)",
            r"\bshould be placed\b",
        ),
        pattern(
            r"\b(?:fits?|matches|missing|complet\w+|continu\w+|aligns?|suitable|appropriate"
            r"|seamless(?:ly)?|corresponds?)\b"
        ),
    ),
    "Visual_Similarity": AnswerWords(
        pattern(*_BEST_WORDS, r"\bclosely resembles\b", r"\bcloser (?:to|match|in)\b"),
        pattern(r"\b(?:similar|resembl\w+|matches|alike|same)\b"),
    ),
    "Forensic_Detection": AnswerWords(
        pattern(*_BEST_WORDS, r"\bthe real (?:photo\w*|image|one)\b"),
        pattern(r"\b(?:real|genuine|authentic|actual|likely)\b"),
        pattern(r"\b(?:(?:ai|computer)[- ])?generated\b|\b(?:synthetic|fake)\b"),
    ),
    "IQ_Test": AnswerWords(
        pattern(
            *_BEST_WORDS,
            r"\bfollows? the (?:same )?(?:pattern|rule|sequence)",
            r"\bcan be (?:folded|obtained|formed)\b|\bcomplet\w+ the\b|\b(?:should|would) be (?:the"
            r" )?next\b",
            r"\bnext (?:picture|image|shape|figure|one|in the)",
        ),
        pattern(r"\b(?:matches|fits?|follows?|consistent|continu\w+)\b"),
    ),
    "Multi-view_Reasoning": AnswerWords(
        pattern(
            rf"\bcamera\b(?:(?!\bobject|\bscene\b)[^.\u27e6]){{0,90}}?\b(?:{_MOTION_STEMS})\w*\b",
            r"\b(?:moving|movement|direction)\b(?=[^.\u27e6]{0,60}\u27e6)",
        ),
        choice_follows=True,
    ),
    "Counting": AnswerWords(
        pattern(
            r"\+[^=.\n]{1,60}(?==)",
            r"\bthere (?:is|are)\b",
            r"\btotal (?:of|is)\b",
            r"\btotal(?=\s*[:=])",
            r"\bmak(?:es|ing)(?: it)?\b",
            r"\bi (?:can )?(?:see|count)\b",
        ),
        choice_follows=True,
        claim_pattern=pattern(
            r"\u27e6(?P<letter>[A-Z])\u27e7[^\u27e6\u27e7.,;\n]{0,25} (?:in total|in"
            r" all|altogether)\b"
        ),
    ),
    "Functional_Correspondence": _CORRESPONDENCE_WORDS,
    "Semantic_Correspondence": _CORRESPONDENCE_WORDS,
    "Visual_Correspondence": _CORRESPONDENCE_WORDS,
}
_GENERAL_WORDS = AnswerWords(pattern(*_BEST_WORDS))


def get_answer_words(subtask: str) -> AnswerWords:
    """Return the answer words of a BLINK subtask, whose name may have spaces or underscores; return
    general words for other subtasks."""
    return _SUBTASK_WORDS.get(subtask.replace(" ", "_"), _GENERAL_WORDS)


def has_answer_words(subtask: str) -> bool:
    """Return whether a subtask has answer words of its own."""
    return get_answer_words(subtask) is not _GENERAL_WORDS
