"""Replaces each mention of a choice in a reply by a tag, so that the rules can refer to choices.

"(B)", "Option B", "point labeled "B"", "the third image" and "Box B (B)" all become ⟦B⟧. A new way
to name a choice by its letter goes into `_LETTER_PATTERNS`; a new way to name it by its text goes
into `_make_text_patterns`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import eq
from string import ascii_uppercase

from looktwice.eval.readers.vocabulary import (
    AGREEMENTS,
    DENIALS,
    FOREIGN_ORDINALS,
    LEFT_WORDS,
    NO_WORDS,
    NUMBERS,
    ORDINALS,
    RIGHT_WORDS,
    YES_WORDS,
    Match,
    Pattern,
    Texts,
    find_longest_word,
    has_letter_matching_ascii,
    make_word_pattern,
    may_contain,
    pattern,
)

TAG = "\u27e6([A-Z])\u27e7"
"""The pattern of a tag; its group is the letter of the choice."""
ONLY_CHOICES_PATTERN = pattern(rf"\W*(?:(?:the |is |it is |it's )*{TAG})+\W*")
CHOICE_LIST_PATTERN = pattern(
    rf"[^\w\u2705\u2713\u2714\u2611]*(?:{TAG}(?:[^\w\u2705\u2713\u2714\u2611=]|\b(?:and|or)\b)*)+"
)
"""Matches a tagged text that is a list of choices. `ONLY_CHOICES_PATTERN` matches one that only
repeats choices, at most with words such as "it is the"."""
_ORDINAL = "|".join(ORDINALS)
_STARTS_ORDINAL_PATTERN = pattern(rf"(?:the\s+)?(?:{_ORDINAL})\b")
_CHINESE_NUMERALS = "\u96f6\u4e00\u4e8c\u4e09\u56db\u4e94\u516d"  # digits from 0
# this many letters beyond the choices are tagged, too, as choices that do not exist; others are
# words
_EXTRA_LETTER_COUNT = 3
_IMAGE_NOUN = (
    r"(?:images?|pictures?|photos?|photographs?|paintings?|artworks?|illustrations?|drawings?"
    r"|shots?|ones?)"
)
_NOUN = (
    r"(?:options?|choices?|letters?|points?|box(?:es)?|bbox|pictures?|images?|photos?|circles?"
    r"|dots?|markers?|labels?"
    r"|figures?|shapes?|regions?|candidates?|rectangles?|answers?|locations?|patterns?"
    r"|diagrams?|squares?|cubes?)"
)
_NUMBERED_CHOICE_PATTERN = pattern(
    rf"\b(?:option|choice)\s*(?:number\s*|no\.?\s*|#\s*)?(?P<number>[1-9])\b(?!\s*[./]\d)"
    r"(?!\s*[:=]\s*[\"'(]*[A-H]\b[^\w\n]*(?:\n|$))"  # "choice 2: A" names A
    rf"|(?<=\bis )(?:number|no\.?)\s*(?P<placed>[1-9])\b"
    rf"|(?:\bthe\s+|(?<!\bas )\ban?\s+|\A\W*)(?P<ordinal>{_ORDINAL})\s+(?:option|choice|answer)\b"
    r"(?!(?:\s+(?:is|would be|might be|could be)|\s*[:=])\s*(?:(?:option|choice|point)\s+)?"
    r"[\"'(]*[A-H]\b)"  # "second choice: A" names A
)
_ORDINAL_CHOICE_PATTERN = re.compile(rf"(?:the\s+)?({_ORDINAL})\s+{_IMAGE_NOUN}")
_DIGITS_PATTERN, _PREDICATE_PATTERN = re.compile(r"[\d.,]+"), re.compile(r"[a-z] is \w+")
_LABEL_PATTERN, _ARTICLE_PATTERN = (
    re.compile(rf"{_NOUN}\s+[a-z]|[a-z]"),
    re.compile(r"^(?:the|an?)\s+(?=\w\w)"),
)
_ONE_OF_A_KIND_PATTERN = re.compile(
    "|".join(
        kind.pattern
        for kind in (_ORDINAL_CHOICE_PATTERN, _DIGITS_PATTERN, _PREDICATE_PATTERN, _LABEL_PATTERN)
    )
)
_NUMERALS, _EQUALITY_TEXTS = (
    {*NUMBERS, *NUMBERS.values()},
    ("about the same", "the same", "same", "equal"),
)
_SPECIAL_TEXTS = {"", "yes", "no", "left", "right", *_NUMERALS, *_EQUALITY_TEXTS}
_NO_JUDGEMENT = r"(?!\s*(?:answer|choice|option|hand)\b)"  # "the right answer" is no direction
_DIRECTION_PHRASE = r"(?:\s+side)?\s+to\s+(?:the\s+)?"
_ORDINALS_JOINED_PATTERN = pattern(
    rf"\b((?:{_ORDINAL})(?:\s*(?:,|and/or|and|or|nor|&)+\s*(?:the\s+)?(?:{_ORDINAL}))+)"
    rf"(?:\s+{_IMAGE_NOUN}\b\s*|(?=\s*(?:[.;\n]|$)))"
)
# "but the third"
_OTHER_ORDINAL_PATTERN = pattern(rf"\b(?:but|rather) the (?:{_ORDINAL})(?=\W*(?:$|[.;\n]))")
_PLURAL_IMAGE_PATTERN = pattern(rf"^{_IMAGE_NOUN}\s+")
_NUMBERS_JOINED_PATTERN = pattern(
    rf"\b{_IMAGE_NOUN}\s+[1-6](?:\s*(?:,\s*and|,|and|or|nor|&)\s*[1-6]\b(?!\s*[./]\d))+"
)
_MARKED_WORDS = r"(?:circled|annotated|labell?ed|marked|lettered|designated|denoted|named|called)"
_LABELED_PHRASE = (
    rf"(?:\s+(?:(?:that|which)\s+(?:is|are)\s+)?(?:circled\s+and\s+)?{_MARKED_WORDS}(?:\s+(?:as|with"
    rf"|by))?(?:\s+the)?"
    r"(?:\s+(?:letter|label|point|option))?)?"
)
_VERB_AHEAD = (
    r"(?=\s*(?:[.,;:!?)\]\"'/&=-]|\(\w|$|\n)|\s+(?:is|are|was|has|have|appears?|seems?|looks?"
    r"|and|or|nor|in|on|at|because"
    r"|since|as|with|corresponds?|match(?:es)?|would|could|should|does|do|more|most|being|to"
    r"|from|than|circled"
    r"|located|which|might|may|must|can|lies|sits|also|best|closely|fits|accurately|better"
    r"|touch(?:es)?|encloses?"
    r"|for|the|it"
    r" is|but|that)\b|\s*[\u2705\u2713\u2714\u2611\u274c\u2717\u2718]|[\u3000-\ud7af]|'s\b)"
)
_LATIN_CHARACTERS = (  # letters that form words; those of Asian scripts do not
    r"A-Za-z0-9_\u00c0-\u024f"
)
_LETTER_ALONE = (
    rf"(?<![{_LATIN_CHARACTERS}'(+=*/^|\u27e6-])({{}})(?![{_LATIN_CHARACTERS}(+=*/^|\u27e7-]|'(?!s\b))"
    r"(?!\s*[+=*/^\u00d7\u2229\u222a])"
)
_CERTAINTY_ADVERBS = (
    "definitely|certainly|clearly|obviously|sure(?:ly)|probably|absolutely|undoubtedly|presumably|"
    "possibly|evidently|really|actually|apparently|precisely|exactly|indeed|only|confidently"
)
_NO_NOUN_AHEAD = (  # words that cannot follow an article, so that an "A" before them is a letter
    r"(?=\s+(?:here|there|right (?:away|now)|this|these|those|the|my|our|your|his|her|its|their"
    r"|we|you|he|she|they|I|if|when|unless|until|although|by|via|of|among|between|any|every|each"
    r"|after all|out of|due to|based on|given (?:that|the|its|how|what)"
    r"|over (?:the|all|any|both|option|\(?[B-H]\b)"
    r"|rather than|instead of|\d+(?:\.\d+)? ?%(?=\s*(?:[.,;:!)]|$|sure\b|certain))"
    r"|(?:then|now|today|again|too|though|anyway|instead|overall|for sure|all the"
    rf" way|{_CERTAINTY_ADVERBS})"
    r"(?=\s*(?:[.,;:!)]|$|because\b|since\b|as\b|and\b)))(?![\w-]))"
)
_VERBAL_PREDICATES = (  # predicates of a choice that are not nouns
    r"(?=\s+(?:wins|works(?! of)|makes|holds|contains|depicts|displays|represents|satisfies"
    r"|completes|belongs|remains|resembles|follows|continues"
    r"|it (?:is|was|has to|must|should|will)|here|after all|this time"
    r"|(?:then|now|again|instead|too|overall|anyway|though)(?=\W*?(?:$|[.!?,;\n])))(?![\w-])"
    r"|\s*[\u2013\u2014\u2190-\u21ff\u2600-\u27bf\U0001f300-\U0001faff])"
)
_DECLARED_A_PATTERN = re.compile(
    r"(\b(?i:choos(?:e|es|ing)|chose|pick(?:s|ed|ing)?|select(?:s|ed|ing)?"
    r"|(?:go|going|went) (?:with|for)|opt(?:ed|ing)? for|votes? for|voted? for|settled? (?:on|for)"
    r"|sa(?:y|id)|(?:must|should|would|could|has to|have to|will|can) be"
    r"|it's|(?:it|that|answer|choice|pick|guess|option|selection) (?:is|was)|answer\s*:)\s+"
    r"(?:(?i:\w+ly|option|choice|thus|indeed|still|again)\s+)?)A" + _NO_NOUN_AHEAD
)
"""Matches "A" in "I choose A here": after such words it is the letter, unless a noun may follow."""
_LETTER_PATTERNS = (
    re.compile(r"(?<![\w)])[(\[{<]\s*(?:option\s+)?([A-Z])\s*[)\]}>](?!\()"),
    re.compile(rf"(?i:\b{_NOUN}{_LABELED_PHRASE}\s*[:=#\"'(]?\s*)\(?([A-Z])\b[\"')]?(?![\w'])"),
    re.compile(r"(?<![\w)])\(([A-Z])\Z"),  # a reply cut off there
    re.compile(
        r"(?i:\b(?:option|choice|point|box)\s|\banswer\s*(?:is\s*:?\s|[:=]|\s)"
        r"|\bans\b\.?\s*[:=]?)\s*"
        r"[\"'(]?([a-z])[\"')]?(?=\s*(?:[.,;:!)]|$))"
    ),
    re.compile(r"\b(?i:point|box)\s([a-h])(?=\s+(?:is|has|appears|seems|looks)\b)"),
    re.compile(r"\b(?i:the)\s+([A-H])\s+(?:point|box|circle|marker|dot)\b"),
    re.compile(r"[\"']\s*([A-Z])\s*[\"']"),
    re.compile(r"(?m:^\s*[-\u2022]?\s*)([A-Z])[).:](?=\s|$)"),
    re.compile(r"(?<![\w.'(+=*/-])([B-H])\)"),
    re.compile(r"\A([A-H])(?= \()"),
    re.compile(_LETTER_ALONE.format("[B-H]")),
    re.compile(
        _LETTER_ALONE.format("A") + f"(?:{_VERB_AHEAD}|{_VERBAL_PREDICATES})"
    ),  # otherwise it is the article
)
_ANSWER_PATTERN = pattern(r"ans(?:wers?)?\b\.?(?:\s*(?:is\b|[:=]))?\s*|choice\s*[:=]\s*")
_NOT_AFTER_NO = (
    r"(?<!\bno(?=\s+(?:idea|clue|doubt|information|way|images?|pictures?|photos?|question|answer"
    r"|choice)\b))"
)
_EQUALITY_PATTERN = pattern(
    r"\b(?:little to )?no (?:\w+ ){0,2}differences?(?= (?:in|between)\b| ?[.,:;])"
    r"|\A\W*(?:same|similar)(?: colou?rs?)?\W*\Z"
    r"|\A\W*no difference\W*\Z|\bsimilar (?:surface )?(?:colou?rs|shades|tones)\b"
    r"|\bneither (?:(?:of them|point|surface|one|(?:point )?A n?or (?:point )?B)"
    r" )?(?:is|looks|appears)"
    r" (?:\w+ly )?darker\b|\bequally (?:dark|light|bright)\b"
    r"|\bsimilar in (?:brightness|darkness|colou?r|reflectance)\b"
    r"|\b(?:(?:about|roughly|approximately|essentially|nearly|basically|almost|likely) )?(?:the"
    r" same|equal|identical)\b"
    r"(?! (?:image|point|wall|surface(?! colou?r)|material|object|type|piece|part|area))"
)
_TAG_SEPARATOR = r"((?:[\s:,.=()\"'-]|\bthe\b|\bis\b(?=\s*\())*)"
_REPEATED_TAG_PATTERN = pattern(
    rf"(?m)(^\W{{0,99}})?\u27e6([A-Z])\u27e7{_TAG_SEPARATOR}(?=\u27e6\2\u27e7)"
)
_ANY_TAG_PATTERN = re.compile("\u27e6([A-Za-z])\u27e7")
_ADJACENT_TAGS_PATTERN = re.compile(
    rf"\u27e6([A-Za-z])\u27e7{_TAG_SEPARATOR}\u27e6([A-Za-z])\u27e7"
)


def tag(letter: str) -> str:
    """Return the tag of a choice in a tagged text."""
    return f"\u27e6{letter}\u27e7"


def find_tagged_letters(text: str) -> list[str]:
    """Return the letters of the choices that a tagged text names, in order, with repetitions."""
    return re.findall(TAG, text)


@dataclass(frozen=True)
class TextPattern:
    """A pattern for the text of a choice, compiled only when a reply contains `word`, which is part
    of that text.

    Most replies name no choice by its text, and compiling takes longer than all other steps of
    reading a reply.
    """

    source: str
    flags: int = re.I
    word: str = ""

    def replace(self, text: str, by: str) -> str:
        """Replace every match in the text."""
        return self._compiled.sub(by, text) if may_contain(text, self.word) else text

    @cached_property
    def _compiled(self) -> Pattern:
        return re.compile(self.source, self.flags)


@dataclass(frozen=True)
class MentionTagger:
    """A function that replaces each mention of a choice in a cleaned reply by a tag. `letters` are
    the letters of the choices, such as "ABCD".

    `text_patterns` are the patterns that name a choice by its text; `are_ordinals` is True if the
    choices are ordinals ("the second image"), `numbers_name_choices` if "option 2" means the second
    choice, because no choice is a number itself.
    """

    letters: str
    text_patterns: tuple[tuple[str, TextPattern], ...]
    are_ordinals: bool
    numbers_name_choices: bool

    def __call__(self, text: str) -> str:
        """Return the text with one tag per mention; a few letters beyond the choices are tagged,
        too.

        Lowercase letters in tags stand for choices that are named by their texts, until these tags
        are merged with the others.
        """
        if self.are_ordinals:
            text = _OTHER_ORDINAL_PATTERN.sub(r"\g<0> image", text)
            text = _ORDINALS_JOINED_PATTERN.sub(
                lambda chain: re.sub(rf"\b({_ORDINAL})\b", r"\1 image", chain[1]) + " ", text
            )
            text = _NUMBERS_JOINED_PATTERN.sub(
                lambda chain: re.sub(
                    r"\b([1-6])\b", r"image \1", _PLURAL_IMAGE_PATTERN.sub("", chain[0])
                ),
                text,
            )
        if self.numbers_name_choices:
            text = _NUMBERED_CHOICE_PATTERN.sub(self._tag_number, text)
        for letter, named in self.text_patterns:
            text = named.replace(text, tag(letter.lower()))
        if may_contain(text, "A "):
            text = _DECLARED_A_PATTERN.sub(rf"\1{tag('A')}", text)
        for named_by_letter in _LETTER_PATTERNS:
            text = named_by_letter.sub(self._tag_letter, text)
        if text.count("\u27e6") > 1:
            text = _ADJACENT_TAGS_PATTERN.sub(self._prefer_letter, _drop_repeated(text))
            text = _drop_repeated(text)
        return re.sub(r"(?<=\u27e6)[a-z](?=\u27e7)", lambda match: match[0].upper(), text)

    def _tag_letter(self, match: Match) -> str:
        is_choice = ord(match[1].upper()) < ord("A") + len(self.letters) + _EXTRA_LETTER_COUNT
        before = _ANSWER_PATTERN.match(match[0])  # "Answer:" declares what follows and is kept
        return (before[0] if before else "") + tag(match[1].upper()) if is_choice else match[0]

    def _tag_number(self, match: Match) -> str:
        number = int(match["number"] or match["placed"] or ORDINALS[match["ordinal"].lower()])
        return tag(self.letters[number - 1]) if number <= len(self.letters) else match[0]

    def _prefer_letter(self, match: Match) -> str:
        """Merge a choice's letter and a choice's text that are side by side: the letter counts if
        it is one of the choices."""
        first, between, second = match.groups()
        if first.islower() == second.islower() or re.search(r"[,.=\n]", between):
            return match[0]
        if first.islower() and ":" in between:  # "no difference: A only looks darker"
            return match[0]
        letter, text = (second, first) if first.islower() else (first, second)
        return tag(letter if letter in self.letters else text)


def _drop_repeated(text: str) -> str:
    def merge_adjacent(match: Match) -> str:
        """Drop a tag that the same tag follows, except on another line or, within a line, after a
        full stop."""
        lead, letter, between = match.groups()
        stopped = (lead is None or letter.islower()) and re.search(r"\.\s", between)
        return match[0] if "\n" in between or stopped else lead or ""

    letters = [letter.upper() for letter in _ANY_TAG_PATTERN.findall(text)]
    return (
        _REPEATED_TAG_PATTERN.sub(merge_adjacent, text)
        if any(map(eq, letters, letters[1:]))
        else text
    )


def filter_nameable(choices: Sequence[str], text: str) -> Texts:
    """Return the texts of the choices, with "" for each that a cleaned reply cannot contain, which
    does not change how the reply is read."""
    choices = tuple(choices)
    words = _find_required_words(choices)
    if words is None or has_letter_matching_ascii(text):
        return choices
    small = text.lower()
    return tuple(
        [choice if word in small else "" for choice, word in zip(choices, words, strict=True)]
    )


@lru_cache(maxsize=4096)
def _find_required_words(choices: Texts) -> Texts | None:
    """Return, for each choice, a word that occurs in every reply that names the choice by its text;
    empty if there is no such word, as for numbers.

    None if the choices are ordinals, because the tagger adds words.
    """
    if any(map(_STARTS_ORDINAL_PATTERN.match, choices)):
        return None
    words = [find_longest_word(_strip_article(_normalize_text(choice))) for choice in choices]
    return tuple([word if word.isascii() else "" for word in words])


def _normalize_text(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .")


def _strip_article(folded: str) -> str:
    """Return the text that names a choice, without its article; empty if special patterns match the
    choice."""
    if folded in _SPECIAL_TEXTS or _ONE_OF_A_KIND_PATTERN.fullmatch(folded):
        return ""
    return _ARTICLE_PATTERN.sub("", folded)


@lru_cache(maxsize=4096)
def get_tagger(choices: Texts) -> MentionTagger:
    """Return the tagger for choices with these texts ("" for a choice without text)."""
    pairs = zip(ascii_uppercase, choices, strict=False)
    patterns = [(letter, named) for letter, text in pairs for named in _make_text_patterns(text)]
    patterns.sort(key=lambda pair: -len(pair[1].source))
    ordinal = any(map(_STARTS_ORDINAL_PATTERN.match, choices))
    if ordinal:
        patterns.append(
            (ascii_uppercase[len(choices) - 1], TextPattern(rf"\bthe last {_IMAGE_NOUN}\b"))
        )
    numbered = not any(
        _normalize_text(text) in _NUMERALS or _DIGITS_PATTERN.fullmatch(_normalize_text(text))
        for text in choices
    )
    return MentionTagger(ascii_uppercase[: len(choices)], tuple(patterns), ordinal, numbered)


def _make_text_patterns(text: str) -> Iterator[TextPattern]:
    """Yield the patterns by which a reply may name a choice by this text."""
    folded = _normalize_text(text)
    ordinal = _ORDINAL_CHOICE_PATTERN.fullmatch(folded)
    if bare := _strip_article(folded):
        source = rf"(?<!\w)(?:(?:the|an?)\s+)?{re.escape(bare)}(?!\w)".replace(r"\ ", r"\s+")
        if re.search("[\u3040-\ud7af]", bare):  # Asian scripts have no spaces between words
            source = re.escape(bare)
        yield TextPattern(source, word=find_longest_word(bare))
    elif ordinal:
        yield from _make_ordinal_patterns(ordinal[1])
    elif folded in ("yes", "no"):
        word, first = (
            (make_word_pattern(YES_WORDS), AGREEMENTS)
            if folded == "yes"
            else (make_word_pattern(NO_WORDS), DENIALS)
        )
        yield TextPattern(rf"\A\W*{make_word_pattern(first)}(?=\s*(?:[.,;!\n]|$))")
        yield TextPattern(
            rf"\A\W*{word}(?![\w']){_NOT_AFTER_NO}|{word}(?=\s*(?:[.,;:!\")\n]|'(?!\w)|$|but\b))"
        )
    elif folded in ("left", "right"):
        here, there = (LEFT_WORDS, RIGHT_WORDS) if folded == "left" else (RIGHT_WORDS, LEFT_WORDS)
        this, opposite = make_word_pattern(here), make_word_pattern(there)
        way = rf"(?:(?<=[a-z] )(?:from\s+)?(?:the\s+)?{opposite}{_DIRECTION_PHRASE}(?={this}))?"
        yield TextPattern(rf"{way}{this}(?!{_DIRECTION_PHRASE}{opposite}){_NO_JUDGEMENT}")
    elif folded in _NUMERALS or _DIGITS_PATTERN.fullmatch(folded):
        yield from _make_number_patterns(NUMBERS.get(folded, folded))
    elif _PREDICATE_PATTERN.fullmatch(folded):  # otherwise it is a predicate of its subject
        yield TextPattern(
            rf"^[^\w\n]*(?:\({folded[0]}\)\s*)?(?:point )?{re.escape(folded)}(?=\s*(?:[.;!\n]|$))",
            re.I | re.M,
        )
    elif folded in _EQUALITY_TEXTS:
        yield TextPattern(_EQUALITY_PATTERN.pattern)


def _make_number_patterns(digits: str) -> Iterator[TextPattern]:
    words = "|".join(
        (re.escape(digits), *(word for word, number in NUMBERS.items() if number == digits))
    )
    yield TextPattern(
        rf"(?<![{_LATIN_CHARACTERS}.])(?:{words})(?![{_LATIN_CHARACTERS}]|\.\d)(?:\s*\((?:{words})\))?"
    )
    if digits == "0":
        yield TextPattern(
            r"(?<=\bthere are )none\b(?! of)|(?<=\bsee )none\b(?! of)"
            r"|(?<=\bthere is )no\b|(?<=\bthere are )no\b|"
            r"\b(?:aren't|isn't|are not|is not) any\b|\A\W*none\W*\Z"
        )


def _make_ordinal_patterns(word: str) -> Iterator[TextPattern]:
    number = ORDINALS[word]
    yield TextPattern(
        rf"\u7b2c\s*[{number}{_CHINESE_NUMERALS[number]}]\s*(?:[\u5f20\u5f35\u5e45\u4e2a\u500b])"
        rf"?(?:\u56fe[\u50cf\u7247]?)?",
        re.NOFLAG,
    )
    short = f"{number}(?:st|nd|rd|th)"
    yield TextPattern(
        rf"\b(?:the\s+)?(?:{word}|{short})\s+{_IMAGE_NOUN}\b|\A\W*(?:the\s+)?(?:{word}|{short})\W*\Z"
    )
    yield TextPattern(
        rf"\b(?:the\s+)?{_IMAGE_NOUN}\s*(?:#|no\.?|number|-|_)?\s*{number}\b(?!\s*[./]\d)",
        word=str(number),
    )
    if number in FOREIGN_ORDINALS:
        yield TextPattern(rf"\b(?:(?:la|a|das) )?(?:{FOREIGN_ORDINALS[number]})\b")
