"""Phrases by which replies declare, prefer, negate and hedge: patterns that match tagged texts (see
`mentions`).

A new way to say "the answer is ⟦B⟧" goes into DECLARATION_PATTERNS, "I go with ⟦B⟧" into
CHOOSING_PATTERN; `claims` shows how each is used.
"""

from __future__ import annotations

import re

from looktwice.eval.readers.vocabulary import pattern

CLAUSE_CHARACTER = r"[^\u27e6\u27e7.?!;\n]"
"""One character of the gap between two positions in the same clause."""
PHRASE_CHARACTER = r"[^\u27e6\u27e7.,?!;\n]"
"""One character of the gap between two positions in the same clause, if the gap must not contain a
comma."""
CHOICE_TAG = r"\u27e6(?P<letter>[A-Z])\u27e7"
"""The tag of the choice that a phrase is about."""


_COPULA_FORMS = (
    "(?:is|are|was|be|would be|should be|could be|must be|might be|may be|will be|"
    "seems to be|appears to be|becomes)"
)
_ADVERB = (
    r"(?:likely|probably|\w+ly|therefore|thus|indeed|then|in|the|that of|option|labeled|to be|"
    "point|at)"
)
COPULA = (
    rf"(?:\b{_COPULA_FORMS}\b|\b(?:it|that|which|one|answer|point)'s\b|:|=)\s*"
    rf"(?:{CLAUSE_CHARACTER}{{0,30}}?\b(?:is|be|in|with|by|to|that|at|as|the|of)\s+)?"
    rf"(?:(?:most |very )?{_ADVERB}\s+)*[\"'(]*"
)
"""A form of "to be", or a colon, and the words between it and the choice that follows."""

NEGATION_PATTERN = pattern(r"\b(?:not|never|neither|cannot|none)\b", r"n't\b")
"""Words that turn a declared choice into one that is ruled out."""
LEAST_LIKELY_PATTERN = pattern(r"\b(?:less|least)\b")
"""More words that rule out a declared choice: "the least likely answer is X"."""
NEGATED_PATTERN = pattern(
    r"\b(?:not|cannot|neither|nor|none|never|incorrect|wrong|rather than|instead"
    r" of|except|unlikely|without|lacks?"
    r"|fails?|excluded?|eliminated?|rule out|ruled out|difficult|impossible|unclear|hard to)\b",
    r"n't\b",
)
"""Negations and similar words, for sentences that only describe a choice."""
TRAILING_NEGATION_PATTERN = re.compile(
    r"\s*(?:is|was|does|do|has|can|would|could)?\s*(?:not\b|n't)"
)
"""A negation right after a declared choice: "the answer is (A) is not correct"."""
_CHOICE_NOUNS = r"(?:images?|options?|points?|pictures?|choices|boxes|photos\w*)"
NO_SINGLE_CHOICE_PATTERN = pattern(
    r"\bnone of (?!the other)",
    r"\bneither (?:of|image|option|point|box|choice|one|answer|is\b|the \u27e6|\u27e6)",
    r"\bnot (?:among|listed|one of|any of)\b",
    r"\bno (?:correct|matching|corresponding|suitable)\b",
    r"\b(?:all|both|any) (?:of )?(?:the )?(?:four |three |two |these"
    rf" )?{_CHOICE_NOUNS}?\b[^.]{{0,60}}"
    r"\b(?:equally|could|have the|are likely|qualities|potential)",
)
"""Phrases that say that no choice is the answer, or that any choice may be the answer."""

_ANSWER_NOUNS = (
    "(?:answer|ans|choice|option|response|conclusion|assessment|selection|guess|verdict|"
    r"decision|judge?ment|prediction|pick|solution|respuesta|antwort|r[e\u00e9]ponse|risposta|"
    "resposta)"
)
_FOREIGN_ANSWER_WORDS = (
    "(?:\u7b54\u6848|\u7b54\u3048|\u6b63\u89e3|\u9009\u62e9?|\u9078\u64c7?|\u56de\u7b54"
    "|\uc815\ub2f5|\u043e\u0442\u0432\u0435\u0442)"
)
_CORRECT_WORDS = r"(?:correct|right|best|most \w+|final|ideal|better|more \w+)"
DECLARATION_PATTERNS = (
    pattern(
        rf"\b{_ANSWER_NOUNS}\b{CLAUSE_CHARACTER}{{0,90}}?{COPULA}{CLAUSE_CHARACTER}{{0,40}}?{CHOICE_TAG}"
    ),
    pattern(
        r"\b(?:it|this)\s+(?:must|should|has"
        rf" to|would|will)\s+be\s+{CLAUSE_CHARACTER}{{0,15}}?{CHOICE_TAG}"
    ),
    pattern(rf"{_FOREIGN_ANSWER_WORDS}{CLAUSE_CHARACTER}{{0,12}}?{CHOICE_TAG}"),
    pattern(
        rf"{CHOICE_TAG}{CLAUSE_CHARACTER}{{0,120}}?\b{_COPULA_FORMS}\b{CLAUSE_CHARACTER}{{0,25}}?\b(?:the|my"
        rf"|an?)\s+(?:\w+\s+){{0,2}}?{_CORRECT_WORDS}\s+"
        r"(?:\w+\s+){0,2}?(?:answer|choice|option|match|one|point|candidate|fit|solution)\b"
    ),
    pattern(
        r"^\W*(?:(?:so|therefore|thus|hence|then|no|actually|instead)\W+)*"
        rf"(?:it|that)(?:'s| is) (?:\w+ly )?{CHOICE_TAG}\W*$"
    ),
    pattern(rf"\b(?:but|actually,?) (?:it|that|the answer)(?:'s| is) (?:\w+ly |now )?{CHOICE_TAG}"),
    pattern(
        r"\b(?:so|actually|no wait|hence|thus|therefore|consequently|accordingly)\W+(?:it )?(?:is"
        rf" )?{CHOICE_TAG}\W*$"
    ),
    pattern(rf"{CHOICE_TAG} is (?:(?:the|my) (?:\w+ )?answer|my (?:first|top|final) \w+)\b"),
    pattern(rf"\bspeaks? for {CHOICE_TAG}\W*$"),
    pattern(rf"\b(?:shows|means|suggests|follows|clear) that it is {CHOICE_TAG}"),
    pattern(
        r"\bor (?:maybe |perhaps |possibly )?\u27e6[A-Z]\u27e7"
        rf"{CLAUSE_CHARACTER}{{0,20}}?\b(?:most likely|more"
        rf" likely|probably|presumably)\s+{CHOICE_TAG}\W*$"
    ),
    pattern(
        rf"\bchang(?:e|es|ed|ing)\b{CLAUSE_CHARACTER}{{0,40}}?(?:\bfrom \u27e6[A-Z]\u27e7"
        rf" )?\bto {CHOICE_TAG}"
    ),
    pattern(rf"(?:\u2192|\u21d2|[=-]>|\w\s*=)\s*{CHOICE_TAG}\W*$"),
    pattern(rf"\b(?:left with|leaves(?: us| me)?(?: with)?(?: only)?)\s+{CHOICE_TAG}"),
    pattern(
        r"^\W*(?:(?:most |very"
        r" )?(?:probably|likely)|maybe|perhaps|possibly|definitely|certainly|clearly|obviously"
        r"|sure(?:ly)|without (?:a )?doubt)"
        rf"\s+{CHOICE_TAG}\W*(?:$|,)"
    ),
    pattern(rf"(?:^|[.;,]\s+)(?:final )?(?:answer|choice) {CHOICE_TAG}\W*$"),
    pattern(
        rf"^\W*(?:1st|first|top|final|#1|choice 1|right|correct)\s*[:=]"
        rf"\s*{CHOICE_TAG}(?=\s*(?:$|[,;.(]))"
    ),
    pattern(rf"{CHOICE_TAG} (?:is|seems|looks|appears)(?: to be)? right\W*$"),
    pattern(
        rf"\bonly {CHOICE_TAG}"
        r" (?:does|is|can|could|would|match\w*|fit\w*|satisf\w+|follow\w*|meets?|works?)\b(?!"
        r" visible)"
    ),
)
"""Match "The answer is X", also in other languages, and "X is the correct choice"."""
_AUXILIARY_WORDS = (
    "(?:i|we|i'd|i'll|one|would|will|can|could|might|may|must|to|therefore|thus|so|should|,)"
)
_PICKING_VERBS = (
    "(?:choose|select|pick|opt for|go with|vote for|lean (?:more )?towards?|settle on|chose|"
    "selected|choosing)"
)
CHOOSING_PATTERN = pattern(
    r"(?<!\bplease )(?<!\byou )(?<!\bhad to )(?<!\bhave to"
    rf" )\b{_AUXILIARY_WORDS}\s+(?:(?:\w+ly|now)\s+)?{_PICKING_VERBS}\b"
    rf"(?!\s+(?:one|between|from|the next|your|which)\b){CLAUSE_CHARACTER}{{0,60}}?{CHOICE_TAG}"
)
"""Matches "I would go with X"."""
PREFERENCE_PATTERN = pattern(
    r"\b(?:preference (?:for|towards?)|leaning (?:more"
    rf" )?towards?)\b{CLAUSE_CHARACTER}{{0,30}}?{CHOICE_TAG}"
)
"""Matches "I have a preference for X"."""
WOULD_SAY_PATTERN = pattern(
    r"\b(?:i|we|one)(?:'d|\s+(?:would|might|can|could|may))?\s+(?:say|conclude|guess|argue"
    r"|infer|suggest)\b"
    rf"\s*(?:that\s+|:\s*)*(?:it is |it's )?{CHOICE_TAG}"
)
"""Matches "I would say X"."""
WRONG_CHOICE_PATTERN = pattern(
    r"((?:\u27e6[A-Z]\u27e7(?:\s|,|and\b|or\b|nor\b)*)+) (?:is|are|was|were) (?:\w+ly )?"
    r"(?:wrong|incorrect|(?:not|n't) (?:correct|right))\b",
    r"^\W*(?:(?:it|this|that)(?:'s| is) )?not"
    r" (\u27e6[A-Z]\u27e7(?:(?:\s|,|and\b|or\b|nor\b|not\b)+\u27e6[A-Z]\u27e7)*)\W*$",
    r"^\W*(?:it|this|that) isn't (\u27e6[A-Z]\u27e7)\W*$",
)
"""Phrases that call a choice wrong."""
CONTRASTED_CHOICE_PATTERNS = (
    pattern(
        r"(?:\b(?:not|neither|nor)|n't)"
        rf" (?!only\b|just\b|merely\b){PHRASE_CHARACTER}{{0,20}}?\u27e6[A-Z]\u27e7"
        r"(?:\s*(?:,|n?or|the|\u27e6[A-Z]\u27e7)\s*)*[\s\"',;:]*"
        r"(?:\b(?:but|rather|instead)\b|(?<=[,;:] )(?:it is|it's)\b)"
        rf"{PHRASE_CHARACTER}{{0,20}}?{CHOICE_TAG}(?! (?:is|are) not)"
    ),
    pattern(rf"^\W*{CHOICE_TAG} it is\W*$"),
    pattern(rf"(?:[,;]|\b(?:but|shows|that)) {CHOICE_TAG} is\W*$"),
)
"""Match "Not Y but X" and "X it is"."""
_STATEMENT_START_PATTERN = pattern(
    r"(?:^|[.,;:]\s|\b(?:and|but|so|that|therefore|thus|hence|is|be|say|think|believe|conclude"
    r"|actually|fact))"
    r"\W*(?:(?:the|surfaces?|colou?rs?|of|at|point|one|area|region|object|wall|spot|so|it|is"
    r"|that|circle)\s+)*\W*$"
)

DIRECT_LINK_PATTERN = pattern(
    r"(?:'s\b)?(?:[\s,()\"'-]|\b(?:is|are|was|has|have|be|appears?|seems?|looks?|must|should"
    r"|would|therefore|thus|hence"
    r"|then|clearly|definitely|indeed|actually|probably|likely|slightly|much|significantly"
    r"|noticeably|the|an?|one|that"
    r"|which|to|point|surface|colou?r|of|two|both|not|cannot|in|fact|most)\b)*"
)
"""The words allowed between a choice and its predicate in a plain sentence."""
APPEARANCE_PATTERN = pattern(r"\b(?:looks?|appears?|seems?)\b")
"""Verbs of appearance; appearances may deceive."""
ILLUSION_PATTERN = pattern(
    r"\b(?:only|just|merely|might|may|first) (?:looks?|appears?|seems?)\b",
    r"\b(?:may|might|can|could|lighting|light|lamp|sun|shad(?:ows?|e|ing)) (?:that"
    r" )?(?:makes?|lets?)\b",
    r"\bonly (?:because|as|due|since|when)\b",
    r"\b(?:first|initially|originally) (?:thought|assumed|guessed|believed|seemed|looked)\b",
    r"\bat first\b|\bapparent(?:ly)? difference\b",
    r"\b(?:might|could|would) \w+.*\bif\b",
    r"\b(?:looks?|appears?|seems?) .{0,30}(?:due to|because of) .{0,20}\b(?:shad\w+|light\w*)",
)
"""Phrases that describe illusions and hypothetical conditions."""
EQUALITY_PATTERN = pattern(
    r"(?:\b(?:is|are|be|have|has|share|appears?|seems?|looks?|remains?|little"
    r" to|there's|see|find|notice)\s+"
    r"(?:(?:to be|to have|likely|probably|indeed|also|in fact|actually|very|quite)\s+){0,3}"
    rf"|[:;]\s*(?:so )?(?:they(?: are|'re) )?(?=\u27e6[A-Z]\u27e7\W*$)){CHOICE_TAG}"
)
"""Matches "They are X", if the choice X says that the others do not differ ("about the same")."""
MARKED_ANSWER_PATTERN = pattern(
    r"\b(?:my[_ ]answer|final[ _]answer)\b(?!"
    rf" chang)\s*(?:is)?\s*[:=]*\s*{CLAUSE_CHARACTER}{{0,20}}?{CHOICE_TAG}"
)
"""Matches "MY_ANSWER: X", which prompts ask for."""

CONCLUSION_PATTERN = pattern(
    r"^\W*(?:therefore|thus|hence|so|in conclusion|overall|consequently|in summary|conclusion|as a"
    r" result"
    r"|based on (?:this|these|the above|my))\b"
)
"""The beginning of a concluding sentence."""
FORCED_CHOICE_PATTERN = pattern(
    r"\b(?:if|were)\s+(?:i|we)\s+(?:had|have|must|need|needed|were forced|am"
    r" forced|were|assume|consider|focus"
    r"|ignore|disregard|compare|look)\b",
    r"\bif forced\b",
    r"\beducated guess\b",
    r"\bif (?:a choice|one) (?:must|has to)\b",
)
"""A choice made despite doubts: "if I had to choose"."""
_EXAMINING_VERBS = "(?:determine|compare|find|identify|look|consider|analyze|check)"
_DECIDING_VERBS = "(?:determine|find|identify|decide|solve|figure)"
UNDECIDED_SENTENCE_PATTERN = pattern(
    r"\?\s*$",
    r"^\W*(?:if|suppose|assuming|let's|let us|we (?:need|have|can|must|should) (?:to"
    rf" )?{_EXAMINING_VERBS}|to {_DECIDING_VERBS})\b",
    r"\bif\b[^,]{3,140},\s*(?:then|the|it|we)\b",
    r"\bdepend(?:s|ing)\b|\b(?:one|which) of the following\b|\bplease\b|\bwhether\b",
)
"""A sentence that is a question, a condition, a plan or a request, and therefore claims nothing."""
SUBORDINATE_CLAUSE_PATTERN = pattern(
    r"^\W*(?:(?:while|although|though|even though)\b[^,]*"
    r"|(?:to (?:determine|find|identify|decide|solve|figure|choose)|in order"
    r" to|when)\b[^,\u27e6]*),\s*"
)
"""A clause before the main one, which is ignored: "although A is larger, "."""
_INABILITY = (
    "(?:cannot|can't|can not|not possible to|impossible to|unable to|difficult to|hard to|"
    "challenging to|couldn't|could not)"
)
_FINDING_VERBS = (
    "(?:determined?|tell|select|choose|say|decide|identify|conclude|provide|make|judge|know|"
    "answer|pinpoint)"
)
_RETURNED_QUESTION = (
    r"\bplease (?:select|choose|identify|pick|provide|clarify|take)\b"
    r"|\b(?:do|can|could|would) you (?:think|choose|identify|select)\b"
)
RETURNED_QUESTION_PATTERN = pattern(_RETURNED_QUESTION)
"""Phrases by which a reply returns the question to the user."""
UNDECIDED_PATTERN = pattern(
    rf"\b{_INABILITY}\s+(?:\w+ly\s+)?(?:be )?{_FINDING_VERBS}\b"
    r"(?! (?:the |any |real |specific )*(?:people|persons?|individuals?|identit(?:y|ies)|who)\b)",
    _RETURNED_QUESTION,
)
"""Phrases by which a reply states that it cannot decide, or returns the question to the user."""

_CONJUNCTION = r"\s*(?:,|/|&|and/or|or|and|nor|as well as|,\s*(?:or|and)|)\s*"
SECOND_CHOICE_PATTERN = pattern(
    rf"^{_CONJUNCTION}(?:either |also |possibly )?\s*\u27e6([A-Z])\u27e7"
)
"""A choice that directly follows another one and is joined to it, so that several are named."""
FIRST_OF_PAIR_PATTERN = pattern(rf"\u27e6([A-Z])\u27e7{_CONJUNCTION}(?:the )?$")
"""A choice that directly precedes another one and is joined to it."""
COMPARED_WITH_PATTERN = pattern(
    r"\b(?:than|unlike|compared to|compared with|rather than|instead of|not)\s*(?:with |of |for"
    r" |that |in )?(?:the )?$"
)
"""Words that directly precede a choice with which something else is compared: "closer than X"."""
LINK_BREAKERS_PATTERN = pattern(
    r"\bwhich (?:of|one|image|point|box|option)\b",
    r"\b(?:whether|if|because|since|whereas|than|determine|the other|both|making it)\b",
    r"\bother (?:images?|points?|options?)\b",
    r"\bit (?:is|has|was|also|appears|looks|seems)\b",
)
"""Words between a choice and a predicate that show that the predicate has another subject."""


def begins_main_clause(before: str) -> bool:
    """Return whether a main clause that is not denied begins at the end of this text, before a
    choice or a predicate."""
    clause = before[-80:]
    return _STATEMENT_START_PATTERN.search(clause) is not None and not re.search(
        r"\b(?:less|un)\W?likely that\b", clause, re.I
    )
