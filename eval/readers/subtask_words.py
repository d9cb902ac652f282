"""The words that make a choice the answer in each subtask of BLINK: closer, darker, most similar,
corresponding ..."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class AnswerWords:
    """What is said of the choice that is the answer: in plain words (`strong`), in weaker ones
    (`weak`).

    What is said in `other` words is said of the wrong choice ("farther"). Where the choice
    `follows` its words ("the camera moves to the left"), it is never their subject. `equal` where a
    choice says that two others do not differ ("about the same"). The group `letter` of `claimed` is
    the answer ("A is in front of B").
    """

    strong: re.Pattern[str]
    weak: re.Pattern[str] | None = None
    other: re.Pattern[str] | None = None
    follows: bool = False
    equal: bool = False
    claimed: re.Pattern[str] | None = None


def _any(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.I)


_FIT = (
    "likely|probable|appropriate|suitable|plausible|logical|accurate|similar|precise|fitting"
    "|consistent|closely"
    "|reasonable|accurately|compatible|aligned|correct|precisely|appropriately|effectively"
    "|seamless(?:ly)?|logically"
    "|visually|tightly|authentic|realistic|natural|candid|genuine|convincing|photorealistic"
    "|lifelike|believable"
)
_BEST = (
    rf"\b(?:most|more)\s+(?:\w+ly\s+)?(?:{_FIT})\b",
    r"\b(?:best|better|correct(?:ly)?|closest(?! (?:alternative|rival|second)))\b",
    r"\bright (?:answer|choice|one|match)\b",
    r"\bhighest (?:likelihood|probability|chance)\b",
)
_VIEWER = (
    r"(?! to\b(?! the (?:camera|viewer|lens|photographer|front|foreground|observer)| us\b| me\b|"
    r" you\b))"
)
_POINT = "(?:the )?\u27e6"
_MOVES = "mov|rotat|pann?|shift|orbit|turn|circl|travel|swe|going|goes|motion|direction"
_CORRESPONDENCE = AnswerWords(
    _any(r"\bcorrespond(?:s|ing)?\b", r"\bmatch(?:es|ing)?\b", *_BEST),
    _any(
        r"\bsame (?:\w+"
        r" )?(?:point|location|position|spot|part|place|feature|corner|area|function)\b",
        r"\b(?:similar|aligns?|equivalent|represents)\b",
    ),
    claimed=_any(
        r"\u27e6(?P<letter>[A-Z])\u27e7[^\u27e6\u27e7.,;\n]{0,40}\b(?:corresponds|matches)(?: to|"
        r" with)?(?: the)?"
        r" (?:\W?REF\b|reference\b)"
    ),
)
_SUBTASKS: Mapping[str, AnswerWords] = {
    "Relative_Depth": AnswerWords(
        _any(
            rf"\b(?:closer|closest|nearer|nearest)\b{_VIEWER}",
            r"\b(?:less|shorter|smaller|lower|shortest|smallest) (?:depth|distance)\b",
            r"\b(?:depth|distance) is (?:less|smaller|shorter)\b",
            r"(?<=\u27e7 is )(?:less|smaller|shorter) than the (?:depth|distance)\b",
        ),
        _any(r"\bforeground\b", r"\bnear (?:bank|side|edge|end)\b"),
        _any(
            r"\b(?:farther|further|farthest|furthest|more distant|is distant|background"
            r"|(?:greater|larger|longer) distance|far (?:bank|side|edge|end))\b",
            rf"\bbehind(?= {_POINT})",
            r"(?:\bnot|n't) (?:as|so) (?:close|near)\b",
        ),
        claimed=_any(
            r"(?:\u27e6(?=[A-Z]\u27e7[^\u27e6\u27e7.,;\n]{0,40}\bin front of (?:the )?\u27e6)"
            r"|\b(?:camera|viewer|observer|photographer|lens|we) (?:is|are)"
            r" (?:\w+ )?(?:closer|nearer) to (?:the )?\u27e6)"
            r"(?P<letter>[A-Z])\u27e7(?:[^\u27e6\u27e7.,;\n]{0,40}\bin front of)?"
        ),
    ),
    "Relative_Reflectance": AnswerWords(
        _any(r"\b(?:darker|darkest)\b"),
        other=_any(r"\b(?:lighter|lightest|brighter)\b", r"(?:\bnot|n't) (?:as|so) dark\b"),
        equal=True,
    ),
    "Object_Localization": AnswerWords(
        _any(
            *_BEST,
            r"\b(?:more|most)\s+(?:\w+\s+)?(?:accurate|precise|tight|close)\w*",
            r"\b(?:tighter|closer(?! to))\b",
        ),
        _any(
            r"\baccurately\s+\w+",
            r"\bperfectly\b",
            r"\bfits? (?:closely|tightly)",
            r"\b(?:tightly|fully|entirely|completely)"
            r" (?:fits|encloses|covers|contains|includes|surrounds|captures)\b",
        ),
        _any(
            r"\b(?:less|inaccurate(?:ly)?)\b|\btoo"
            r" (?:large|big|small|loose|wide|narrow|tall|short)\b",
            r"\b(?:misses|cuts off|cuts out|leaves out|excludes|only (?:a )?part)\b",
            r"\b(?:does not|doesn't) (?:\w+ly )?(?:include|cover|contain|enclose|capture)\b",
        ),
    ),
    "Art_Style": AnswerWords(
        _any(
            r"\b(?:shares?|sharing|has|have|in|of|with|exhibits?|follows?"
            r"|matches)\s+(?:\w+\s+){0,2}?(?:the\s+)?"
            r"(?:same|similar|closest)\s+(?:\w+\s+){0,3}?style\b",
            r"\b(?:same|similar) (?:\w+ )?style\b",
            r"\b(?:most|more) (?:closely|similar|likely|appropriate)\b",
            r"\bclos(?:er|est)\b(?! to\b(?! the (?:reference|first|style)| it\b| that\b))",
            r"\bbest match|\bcorrect\b|\bshares\b",
        ),
        _any(r"\b(?:aligns?|matches|similar|consistent|shares?)\b"),
    ),
    "Jigsaw": AnswerWords(
        _any(
            *_BEST,
            r"\b(?:is|be) (?:the|likely the|probably the) missing"
            r" (?:part|piece|section|portion|corner)",
            r"\bshould be placed\b",
        ),
        _any(
            r"\b(?:fits?|matches|missing|complet\w+|continu\w+|aligns?|suitable|appropriate"
            r"|seamless(?:ly)?|corresponds?)\b"
        ),
    ),
    "Visual_Similarity": AnswerWords(
        _any(*_BEST, r"\bclosely resembles\b", r"\bcloser (?:to|match|in)\b"),
        _any(r"\b(?:similar|resembl\w+|matches|alike|same)\b"),
    ),
    "Forensic_Detection": AnswerWords(
        _any(*_BEST, r"\bthe real (?:photo\w*|image|one)\b"),
        _any(r"\b(?:real|genuine|authentic|actual|likely)\b"),
        _any(r"\b(?:(?:ai|computer)[- ])?generated\b|\b(?:synthetic|fake)\b"),
    ),
    "IQ_Test": AnswerWords(
        _any(
            *_BEST,
            r"\bfollows? the (?:same )?(?:pattern|rule|sequence)",
            r"\bcan be (?:folded|obtained|formed)\b|\bcomplet\w+ the\b|\b(?:should|would) be (?:the"
            r" )?next\b",
            r"\bnext (?:picture|image|shape|figure|one|in the)",
        ),
        _any(r"\b(?:matches|fits?|follows?|consistent|continu\w+)\b"),
    ),
    "Multi-view_Reasoning": AnswerWords(
        _any(
            rf"\bcamera\b(?:(?!\bobject|\bscene\b)[^.\u27e6]){{0,90}}?\b(?:{_MOVES})\w*\b",
            r"\b(?:moving|movement|direction)\b(?=[^.\u27e6]{0,60}\u27e6)",
        ),
        follows=True,
    ),
    "Counting": AnswerWords(
        _any(
            r"\+[^=.\n]{1,60}(?==)",
            r"\bthere (?:is|are)\b",
            r"\btotal (?:of|is)\b",
            r"\btotal(?=\s*[:=])",
            r"\bmak(?:es|ing)(?: it)?\b",
            r"\bi (?:can )?(?:see|count)\b",
        ),
        follows=True,
        claimed=_any(
            r"\u27e6(?P<letter>[A-Z])\u27e7[^\u27e6\u27e7.,;\n]{0,25} (?:in total|in"
            r" all|altogether)\b"
        ),
    ),
    "Functional_Correspondence": _CORRESPONDENCE,
    "Semantic_Correspondence": _CORRESPONDENCE,
    "Visual_Correspondence": _CORRESPONDENCE,
}
_GENERAL = AnswerWords(_any(*_BEST))


def answer_words(subtask: str) -> AnswerWords:
    """The words of a subtask of BLINK, with spaces or underscores; others have general words."""
    return _SUBTASKS.get(subtask.replace(" ", "_"), _GENERAL)
