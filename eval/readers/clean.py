"""Converts a reply to plain English: removes thoughts, special tokens, markup and echoes of the
question, and translates the decisive words of other languages.

A new language needs a table in `gloss_tables` and, in this module, the words that identify it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from string import ascii_uppercase

from looktwice.eval.readers.vocabulary import (
    Match,
    Pattern,
    Texts,
    find_longest_word,
    may_contain,
    pattern,
)
from looktwice.pipelines.replies.thoughts import cut_at_turn_end, strip_beginning, strip_thoughts

_SPECIAL_TOKEN_PATTERN = pattern(
    r"</?s>|<\|[\w"
    r" ]+\|>|<\uff5c[^>]+\uff5c>|<(?:eos|bos|pad|unk|end_of_turn|start_of_turn)>|\[/?INST\]"
)
_TAGGED_ANSWER_PATTERN = re.compile(
    r"<(answer|final_answer|choice|option)>((?:(?!<\1>).)*?)</\1>", re.S | re.I
)
_UNCLOSED_TAG_PATTERN = pattern(r"<(?:answer|final_answer)>\s*(?=[^<>\n]{1,80}\Z)")
_STRUCK_OUT_PATTERN = re.compile(r"~~(?=\S)[^~\n]+~~(?=[^~]*\w)")
_ESCAPED_LETTER_PATTERN = re.compile(r"&lt;\s*([A-Za-z])\s*&gt;")
_HTML_PATTERN = pattern(r"</?(?:em|strong|br|li|ul|ol|code|img|h[1-6])\s*/?>")
_LETTER_TAG_PATTERN = re.compile(r"<(/?)([bip])\s*/?>(?P<before_word>(?=[ \t]*\w))?", re.I)
_LINK_PATTERN = re.compile(r"!?[\[(][^\]\n()]*[\])]\(https?://[^)\s]*\)|https?://\S+")
_TEX_PATTERN = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mathit|operatorname)\s*\{([^{}]*)\}")
_BOXED_PATTERN = re.compile(r"\\f?boxed\s*\{([^{}]*)\}")
_MATHS_PATTERN = re.compile(r"(?<![\\$])(\${1,2})(?=[^\s$])([^$\n]*)(?<=[^\s\\])\1(?!\d)")
_MARKUP_PATTERN = re.compile(
    r"\*+|`+|~~|(?m:^\s{0,3}#{1,6}\s+)|(?m:^\s{0,99}>\s)|\$+(?!\d)|\\[()\[\]]|\\(?=[_*#&%$])"
    r"|(?<!\w)_+|_+(?!\w)"
)
_ANY_MARKUP_PATTERN = re.compile(r"[*`~#>$\\_]")  # a quick test whether there is anything to remove
_HEAD_LENGTH, _TAIL_LENGTH = 2_000, 8_000  # characters
_SPACE_PATTERN = re.compile(r"\s(?:(?<! )\s*|\s+)")  # but not a single space
# a rule of dashes, or a model that repeats one character endlessly
_REPETITION_PATTERN = re.compile(r"(([^\w\s])\2{19})\2+")
_QUOTES = str.maketrans(
    {
        "\u2010": "-",
        "\u2011": "-",
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u00ab": '"',
        "\u00bb": '"',
    }
)
_PUNCTUATION = str.maketrans(
    {
        "\u3010": "[",
        "\u3011": "]",
        "\u300c": '"',
        "\u300d": '"',
        "\u3002": ". ",
        "\u3001": ", ",
        "\u27e6": "[",
        "\u27e7": "]",
    }
)


def clean_text(reply: str) -> str:
    r"""Return the text of a reply up to the end of its turn, without thoughts, tokens, Markdown and
    TeX, with ASCII punctuation; \boxed{B} becomes "Answer: B"."""
    text = cut_at_turn_end(strip_beginning(strip_thoughts(reply)))
    if (
        len(text) > _HEAD_LENGTH + _TAIL_LENGTH
    ):  # the time of rules may grow with the square of the length
        text = f"{text[:_HEAD_LENGTH]}\n{text[-_TAIL_LENGTH:]}"  # a reply states its answer there
    text = _SPECIAL_TOKEN_PATTERN.sub(" ", text).translate(_PUNCTUATION)
    if not text.isascii():
        from looktwice.eval.readers.look_alikes import to_latin

        text = to_latin(unicodedata.normalize("NFKC", text)).translate(_QUOTES)
    text = _UNCLOSED_TAG_PATTERN.sub(
        r"\nAnswer: ", _TAGGED_ANSWER_PATTERN.sub(r"\nAnswer: \2\n", text)
    )
    if "~~" in text:
        text = _STRUCK_OUT_PATTERN.sub("", text)
    if "http" in text:
        text = _LINK_PATTERN.sub(" ", text)
    text = _HTML_PATTERN.sub(" ", text)
    if "<" in text or "&lt;" in text:
        text = _strip_letter_tags(_ESCAPED_LETTER_PATTERN.sub(r"<\1>", text))
    if "\\" in text:
        text = _BOXED_PATTERN.sub(r"\nAnswer: \1\n", _TEX_PATTERN.sub(r"\1", text))
    if _ANY_MARKUP_PATTERN.search(text):
        text = _MARKUP_PATTERN.sub("", _MATHS_PATTERN.sub(r"\2", text))
    text = _REPETITION_PATTERN.sub(r"\1", text)
    # replace a run of white space by one space, line break or empty line
    return _SPACE_PATTERN.sub(lambda run: "\n" * min(run[0].count("\n"), 2) or " ", text).strip()


def _strip_letter_tags(text: str) -> str:
    """Remove <b>, <i> and <p>, but keep "<B>", the letter of a choice that no "</B>" closes."""
    closed = set(re.findall(r"</([bip])\s*>", text, re.I))

    def keep_letter(tag: Match) -> str:
        is_markup = tag[1] or tag[2] in closed or tag[2] == "p"
        if is_markup or (tag[2].islower() and tag["before_word"] is not None):
            return " "
        return f"({tag[2]})"

    return _LETTER_TAG_PATTERN.sub(keep_letter, text)


_QUESTION_PATTERN = pattern(
    r"\A(?:q(?:uestion)?\s*[:.]\s*)?[^?\n]{3,300}\?\s+(?:a(?:nswer)?\s*:\s*)?(?=[\w(])"
)
_CHOICES_HEADING = r"\A(?:[^\n]{0,99}\b(?:choices|options)\b[^\w\n]*\s)?\W*"
_BETWEEN_CHOICES_PATTERN = pattern(
    r"(?m)(?:^|(?<=[.!?]\s))(?:between|(?:out )?of|comparing|looking"
    r" at|considering)\b[^,.:;\n]{0,60}?\b(?:and|or)\b"
    r"[^,.:;\n]{0,40}, (?=\w)"
)


def strip_echo(text: str, choices: Texts) -> str:
    """Return a cleaned reply without the parts of the question that it repeats: the text, the
    choices, "Between A and B, "."""
    if question := _QUESTION_PATTERN.match(text):
        text = text[question.end() :]
    if (
        len(choices) > 1
        and all(choices)
        and all(may_contain(text, find_longest_word(choice)) for choice in choices)
    ):
        text = text[echo.end() :] if (echo := _make_choices_pattern(choices).match(text)) else text
    return _BETWEEN_CHOICES_PATTERN.sub("", text)


@lru_cache(maxsize=4096)
def _make_choices_pattern(choices: Texts) -> Pattern:
    """Return a pattern that matches all choices with their letters, in order, as a question lists
    them."""
    items = [
        rf"(?:\({letter}\)|\b{letter}[.):])\s*" + r"\s+".join(map(re.escape, text.split()))
        for letter, text in zip(ascii_uppercase, choices, strict=False)
    ]
    return pattern(_CHOICES_HEADING + r"[\s,;.]+".join(items) + r"(?!\w)[\s,;.]*")


_LANGUAGE_MARKERS = {
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
"""Words that identify a reply's language if the reply contains no common English words."""
_LANGUAGE_WORDS = {
    language: frozenset(words.split()) for language, words in _LANGUAGE_MARKERS.items()
}
_ENGLISH_PATTERN = pattern(r"\b(?:the|is|are|of|and|to|this|that|than|it|with)\b")
_ASIAN_PATTERN = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_KANA_PATTERN = re.compile("[\u3040-\u30ff]")


def translate_to_english(text: str, choices: Texts = ()) -> tuple[str, Texts]:
    """Return a cleaned reply and the texts of choices, with the decisive words of the reply's
    language translated into English.

    A reply that contains common English words counts as English, and nothing changes.
    """
    if _is_english(text):
        return text, choices
    if _ASIAN_PATTERN.search(text):
        language = "ja" if _KANA_PATTERN.search(text) else "zh"
    else:
        words, counts = re.findall(r"[\w']+", text.casefold()), dict[str, int]()
        for name, markers in _LANGUAGE_WORDS.items():
            counts[name] = sum(word in markers for word in words)
        language = max(counts, key=counts.__getitem__)
        if not counts[language]:
            return text, choices
    return _translate(text, language), tuple(_translate(choice, language) for choice in choices)


@lru_cache(maxsize=8192)
def _is_english(text: str) -> bool:
    return _ENGLISH_PATTERN.search(text) is not None


def _translate(text: str, language: str) -> str:
    for source, english in _compile_table(language):
        text = source.sub(english, text)
    return re.sub(r" +", " ", text).strip()


@lru_cache
def _compile_table(language: str) -> tuple[tuple[Pattern, str], ...]:
    """Compile a language's table into patterns with their translations. In languages with spaces
    between words, patterns match whole words."""
    spaced = language not in ("zh", "ja")
    from looktwice.eval.readers.gloss_tables import GLOSS_TABLES

    lines = [line.rpartition(" = ") for line in GLOSS_TABLES[language].strip().splitlines()]
    return tuple(
        (
            pattern(rf"(?<!\w)(?:{source})(?!\w)" if spaced else source),
            english if spaced else f" {english} ",
        )
        for source, _, english in lines
    )
