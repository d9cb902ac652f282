"""Replies in other languages, put into English word by word, so that the rules for English read
them.

Only the words that carry a claim are put into English: comparisons, negations, verbs of being,
conclusions, numbers. A language is added as a table in `gloss_tables`, with the words that tell it
here.
"""

from __future__ import annotations

import re
from functools import lru_cache

from looktwice.eval.readers.gloss_tables import TABLES

_MARKERS = {
    "de": (
        "auf dem den im mit von man hier zwei drei vier fünf sechs sieben neun zehn nur ist sind"
        " nicht kein keine keinen keiner und näher dunkler heller punkt bild antwort daher somit"
        " sondern gibt ich das nein weiter gleich stimmt insgesamt ja der folglich richtig falsch"
        " wahr wirkt liegt ungefähr"
    ),
    "fr": (
        "sur dans du ce cette on cinq quatre huit zéro exact est sont pas mais donc le la les une"
        " des il je c'est oui non réponse proche aucun aucune pareil près choisis vrai n'est n'y"
        " deux trois par en au"
    ),
    "es": (
        "del con se lo al cuento una cuatro cinco seis siete ocho nueve diez cero correcto es está"
        " son están hay el la más pero sino sí opción respuesta aunque porque punto veo ninguno"
        " ningún ninguna por aproximadamente igual elijo elegiría los las en dos tres"
    ),
}
"""Words that tell a language; none of them makes up an English reply."""
_LANGUAGES = {language: frozenset(words.split()) for language, words in _MARKERS.items()}
_ENGLISH = re.compile(r"\b(?:the|is|are|of|and|to|this|that|than|it|with)\b", re.I)
_ASIAN = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_KANA = re.compile("[\u3040-\u30ff]")


def in_english(text: str, choices: tuple[str, ...] = ()) -> tuple[str, tuple[str, ...]]:
    """A cleaned reply and the texts of choices, with the telling words of the reply's language put
    into English.

    A reply with common words of English in it counts as English, and all stays as it is.
    """
    language = _language_of(text)
    if not language:
        return text, choices
    return _gloss(text, language), tuple(_gloss(choice, language) for choice in choices)


def _language_of(text: str) -> str:
    if _ENGLISH.search(text):
        return ""
    if _ASIAN.search(text):
        return "ja" if _KANA.search(text) else "zh"
    words = re.findall(r"[\w']+", text.casefold())
    counts = {
        language: sum(word in telling for word in words) for language, telling in _LANGUAGES.items()
    }
    language = max(counts, key=lambda name: counts[name])
    return language if counts[language] else ""


def _gloss(text: str, language: str) -> str:
    for pattern, english in _entries(language):
        text = pattern.sub(english, text)
    return re.sub(r" +", " ", text).strip()


@lru_cache
def _entries(language: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """The table's patterns, of whole words where words have spaces between them, each with its
    English."""
    spaced = language not in ("zh", "ja")
    lines = [line.rpartition(" = ") for line in TABLES[language].strip().splitlines()]
    return tuple(
        (
            re.compile(rf"(?<!\w)(?:{source})(?!\w)" if spaced else source, re.I),
            english if spaced else f" {english} ",
        )
        for source, _, english in lines
    )
