"""Parts of a reply other than its answer: second choices ("Second choice: A"), and phrases that
take back or correct what precedes them ("Correction: B").

The patterns match tagged texts (see `mentions`). A new way to name a runner-up goes into
`_RUNNER_UP_PHRASE`, a new correction phrase into `_CORRECTION_PATTERN`.
"""

from __future__ import annotations

import re

from looktwice.eval.readers.phrases import CLAUSE_CHARACTER, PHRASE_CHARACTER
from looktwice.eval.readers.vocabulary import Pattern, pattern

_TAG = "\u27e6[A-Z]\u27e7"
_TAGS = rf"{_TAG}(?:(?:\s|,|and\b|or\b|&|/)*{_TAG})*"
_NOUN = (
    r"(?:answers?|choices?|options?|guess(?:es)?|picks?|candidates?|bets?"
    r"|possibilit(?:y|ies)|preferences?|alternatives?|responses?|contenders?|match(?:es)?)"
)
_ORDINAL = r"(?:second|third|fourth|fifth|2nd|3rd|4th|5th|next)"
_BEST_ADJECTIVES = r"(?:best|closest|likeliest|nearest|most (?:likely|probable|plausible))"
_OTHER_ADJECTIVES = (
    r"(?:alternat(?:iv)?e|back-?up|fall-?back|secondary|less likely|less probable|another"
    r"|opposite|tempting|random|naive"
    r"|(?:an)?other (?:possible|plausible|likely|potential|strong|good|close)|least likely"
    r"|least probable|(?:only|closest|nearest|main) (?:other|alternative|rival|competitor))"
)
_RUNNER_UP_PHRASE = (
    rf"(?:{_ORDINAL}[ -]{_BEST_ADJECTIVES}(?: {_NOUN})?|{_ORDINAL}[ -](?:likely |good )?{_NOUN}"
    rf"|{_ORDINAL}(?=:)|{_OTHER_ADJECTIVES} {_NOUN}"
    rf"|runners?[ -]up|alternatives?|alternatively|fall-?back|back-?up|least likely|less likely"
    rf"|worst(?: {_NOUN})?"
    r"|(?:closest|nearest|main|strongest|only) (?:alternative|rival|competitor|contender))"
)
_COPULA = r"(?:is|are|was|were|would be|might be|may be|could be|will be|comes?)"
_NOT_A_FIRST_CHOICE = (
    r"(?<!\bthe only )(?<!\bbest )(?<!\bcorrect )(?<!\bright )(?<!\bno )(?<!\bis the )"
)
_PICKING_VERBS = r"(?:choose|pick|select|go (?:with|for)|opt for|vote for|say|answer|think(?: of)?)"
_OTHER_PEOPLE = (
    r"(?:others|people|someone|somebody|anyone|many|some|humans?|viewers?"
    r"|an? (?:\w+ )?(?:person|viewer|reader|observer|human|guesser)|one who \w+|those who \w+)"
)
_RIVALS_PATTERN = pattern(
    rf"{_NOT_A_FIRST_CHOICE}\b{_RUNNER_UP_PHRASE}(?:\s+{_COPULA}\b|\s*[:=\u2013-]"
    rf"|,\s+(?:i|we)(?:'d| would| might| could) {_PICKING_VERBS}\b)"
    rf"{CLAUSE_CHARACTER}{{0,20}}?{_TAGS}",
    rf"\bif i had (?:to (?:choose|pick|name) )?(?:another|an? (?:second|third|other))\b"
    rf"{CLAUSE_CHARACTER}{{0,40}}?{_TAGS}",
    rf"\bif (?:not {_TAG}|(?:that|this|it) is (?:wrong|not (?:right|correct|it)|incorrect)"
    r"|i am (?:wrong|mistaken)|i'm"
    rf" (?:wrong|mistaken)){PHRASE_CHARACTER}{{0,20}},?\s+{CLAUSE_CHARACTER}{{0,40}}?{_TAGS}",
    rf"(?:^|(?<=[.;,]\s))otherwise,?\s+{CLAUSE_CHARACTER}{{0,40}}?{_TAGS}",
    rf"\b{_OTHER_PEOPLE} (?:\w+ )?(?:would|might|may|could|will)(?: \w+)? {_PICKING_VERBS}\b"
    rf"{CLAUSE_CHARACTER}{{0,30}}?{_TAGS}",
    r"\b(?:you|one) (?:might|may|could) (?:\w+"
    rf" )?(?:{_PICKING_VERBS}|believe)\b{CLAUSE_CHARACTER}{{0,30}}?{_TAGS}",
    rf"\bat first (?:glance|sight)\b{CLAUSE_CHARACTER}{{0,40}}?{_TAGS}",
    rf"\bwith {_TAGS} (?:as|being) (?:the|my|a|an) (?:close )?{_RUNNER_UP_PHRASE}",
    rf"{_TAGS}(?: {_COPULA}|,| as) (?:the |my |a |an )?(?:close )?{_RUNNER_UP_PHRASE}\b"
    rf"(?!(?:\s+\w+)?(?:\s+{_COPULA}\b|\s*:))",
    rf"\bfollowed by {_TAGS}",
)
"""Matches "Second choice: X" and similar phrases, up to and including the choices that they
name."""
_RIVAL_WORDS = (
    "second|third|fourth|fifth|2nd|3rd|4th|5th|next|alternat|back|fall|runner|less |least|worst"
    "|another|other|opposite|tempting|random|naive|closest|nearest|main|strongest|only|if |would"
    "|might|may|could|will|at first|followed"
)
"""Every match of `_RIVALS_PATTERN` contains one of these words. `_WRONG_ANSWER_WORDS` and
`_CORRECTION_WORDS` serve `_BAD_ANSWER_PATTERN` and `_CORRECTION_PATTERN` in the same way: searching
for plain words first saves time."""
_WRONG_WORDS = (
    r"(?:wrong|incorrect|false|invalid|mistaken|bad|poor|unlikely"
    r"|(?:tempting|plausible|common|obvious) but \w+)"
)
_BAD_ANSWER_PATTERN = pattern(
    rf"\b(?:an?|the|any|my|one|some)? ?(?:\w+ )?{_WRONG_WORDS} (?:{_NOUN})(?: here)?"
    rf"(?:\s+{_COPULA}\b|\s*[:=\u2013-])(?:(?! not ){CLAUSE_CHARACTER}){{0,20}}?({_TAGS})",
    rf"\b(?:a mistake|an error|wrong|incorrect|tempting|easy) to {_PICKING_VERBS}"
    rf"{CLAUSE_CHARACTER}{{0,20}}?({_TAGS})",
    rf"(?:^|(?<=[.;\n]\s)|(?<=\n))(?:wrong|incorrect|not the (?:\w+ )?answer)\s*:"
    rf"{CLAUSE_CHARACTER}{{0,20}}?({_TAGS})",
    rf"\bdistractors?(?:\s+{_COPULA}\b|\s*[:=]){CLAUSE_CHARACTER}{{0,20}}?({_TAGS})",
)
"""Matches "A wrong answer would be X"."""
_WRONG_ANSWER_WORDS = (
    "wrong|incorrect|false|invalid|mistake|bad|poor|unlikely|distractor|error|tempt|easy"
    "|plausible|common|obvious|not the"
)
_RIVAL_ANSWER_PATTERN = pattern(
    rf"{_NOT_A_FIRST_CHOICE}\b(?:(?:my|the|an?)\s)?{_RUNNER_UP_PHRASE}(?:\s+{_COPULA}\b|\s*[:=\u2013-])[^.;\n]*[.;]?",
    rf"\b(?:an?|the) {_WRONG_WORDS} {_NOUN}(?:\s+{_COPULA}\b|\s*[:=])[^.;\n]*[.;]?",
)


def strip_rivals(text: str) -> str:
    """Remove the words that name second choices from a tagged text."""
    if not _contains_any(text, _RIVAL_WORDS):
        return text
    return re.sub(r"\(\W*\)|\[\W*\]", "", _RIVALS_PATTERN.sub("", text))


def strip_rival_answers(text: str) -> str:
    """Remove the clauses that name second or wrong answers from an untagged text."""
    return _RIVAL_ANSWER_PATTERN.sub(" ", text)


def mark_wrong_answers(text: str) -> str:
    """Rewrite "a wrong answer would be X" as "X is wrong" in a tagged text."""
    if not _contains_any(text, _WRONG_ANSWER_WORDS):
        return text
    return _BAD_ANSWER_PATTERN.sub(lambda bad: f". {bad[bad.lastindex or 0]} is wrong", text)


_RETRACTION_PATTERN = pattern(
    r"(?:^|[.,!?;\u2026-]\s*)(?:(?:but|no|oh|hmm|yes)\b,? )?wait\b(?=\s*[,.!:\u2026\u2014-])",
    r"[.,\u2026-]\s*(?:but )?actually,?\s+(?=\u27e6|(?:yes|no)\b)",
    r"(?<![\w-])(?:hold on|looking (?:again|closer|more closely)|on second thoughts?|scratch"
    r" that)\b",
)
_CLAUSE_START = (
    r"(?:^|(?<=[.,!?;:)\u2026\u2014\u27e7-]\s)|(?<=[\n(\[]) ?)(?:oh,? |ah,? |but |no,? )?"
)
_PHRASE_END = r"(?=\s*[,.;:!\u2026\u2014-]|\s+(?:it|the|i|that|sorry)\b)"
_CORRECTION_PATTERN = pattern(
    rf"{_CLAUSE_START}(?:a |final |self-)?(?:correct(?:ions?|ed)|edit(?:ed)?|updated?|errat(?:um|a)"
    r"|revis(?:ion|ed)|amendment|typo)(?:\s*[:!\u2014]|\s[\u2013-]\s)",
    r"\b(?:corrected|revised|updated|amended)(?= (?:final )?(?:answer|choice|count)\b)",
    rf"{_CLAUSE_START}(?:w?h?o+ps(?:ie)?(?:,? sorry)?|(?:my )?(?:bad|mistake|error|apologies)"
    r"|excuse me|wait,? no|(?:i'm |i am |so )?sorry|pardon(?: me)?|i stand corrected)"
    rf"{_PHRASE_END}",
    r"(?<!if )(?<!first )(?<!which )(?<!that )(?<!because )\bi (?:just )?(?:misread|misspoke"
    r"|misjudged|miscounted|mistook|misidentified|made an? (?:\w+ )?(?:mistake|error)"
    r"|was (?:wrong|mistaken)|changed? my mind|meant(?: to (?:say|write))?"
    r"|take (?:that|it) back)\b",
    r"\b(?:my|the) (?:previous|first|earlier|initial) \w+ (?:was|is) (?:wrong|incorrect)\b",
    r"\bapologi[sz]e\b|\bcorrect(?:ing)? myself\b",
    r"\bmake (?:that|it)\s+(?=\u27e6)",
    r"\b(?:strike|forget|ignore|disregard) that\b",
    r"\bi should(?: have|'ve) (?:said|written|answered|chosen|picked)\b",
    r"\b(?:let me|i (?:need|have|want|ought) to|i (?:should|must))"
    r" (?:correct|fix|revise|amend|rectify)"
    r" (?:that|this|it|my (?:answer|mistake))\b",
    r"\b(?:on|upon) (?:(?:further|closer|second|careful) (?:reflection|inspection|look"
    r"|examination)|reflection)\b",
    r"\b(?:reconsidering|(?:re|double)-?checking|re-?examining|re-?counting)\b",
    r"\blooking at \w+(?: \w+)? (?:again|more closely)\b",
    r"(?<=[.!,\n]\s)that(?:'s| is| was) (?:wrong|incorrect|a mistake|not (?:right|correct))\b",
    r"[,.\u2026\u2014-]\s*(?:no,|(?:nope|nah|or rather|i mean|rather),?)\s+(?:it(?:'s| is) )?"
    r"(?=\u27e6[A-Z]\u27e7\W*(?:$|\.))",
)
_CORRECTION_WORDS = (
    "correction|corrected|correcting|correct that|correct this|correct it|correct my|edit|"
    "updat|errat|revis|amend|typo|oops|bad|mistake|apolog|sorry|pardon|misread|misspoke|misj|"
    "miscount|mistook|misid|error|wrong|my mind|meant|it back|that back|make that|make it|"
    "strike|forget|ignore|disregard|fix|rectify|upon |on further|on closer|on second|"
    "on careful|on reflection|looking at|reconsider|recheck|recount|reexamin|re-|double|"
    "not right|not correct|incorrect|no,|should|excuse|wait|nope|nah|rather|i mean"
)


def find_second_thoughts(text: str) -> str:
    """Return the text after the last phrase that retracts what precedes it ("No, wait. Looking
    again, "), or "" if there is no such phrase."""
    return _get_tail(text, _RETRACTION_PATTERN)


def find_correction(text: str) -> str:
    """Return the text after the last phrase that corrects what precedes it ("Oops, "), or "" if
    there is no such phrase.

    Such phrases also begin other remarks ("Sorry, B is hidden."), so after them only a declared
    answer counts.
    """
    return _get_tail(text, _CORRECTION_PATTERN) if _contains_any(text, _CORRECTION_WORDS) else ""


def _contains_any(text: str, words: str) -> bool:
    small = text.lower()
    return any(word in small for word in words.split("|"))


def _get_tail(text: str, words: Pattern) -> str:
    places = list(words.finditer(text))
    return text[places[-1].end() :].lstrip(" ,.;:!\u2026\u2014-\n") if places else ""
