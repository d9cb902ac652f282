"""The labels of places in a reply, and their comparison with the names of categories."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from looktwice.prompting.where.claims import LABEL_KEYS, Claim

REFERENCE_PATTERN = re.compile(
    r"<(?:\|?object_ref_start|\|ref|ref|p|phrase|obj)\|?>\s*([^<]+?)\s*"
    r"<(?:\|?object_ref_end|\|/ref|/ref|/p|/phrase|/obj)\|?>",
    re.I,
)
TAG_PATTERN = re.compile(r"<[^<>]{0,80}>")
BULLET_PATTERN = re.compile(
    r"^[\s,;.&)\]}|]*(?:and\b)?[\s>#]*(?:[-*•+]|\(?\d{1,3}[.):](?!\d))?\s*", re.I
)
QUOTED_LABEL_PATTERN = re.compile(
    rf"[\"'](?:{'|'.join(LABEL_KEYS)})[\"']\s*:\s*[\"']([^\"']{{1,200}})[\"']"
)
"""The label in an object that is not quite JSON."""
LABEL_ENDING_PATTERN = re.compile(
    r"(?:[\s:=\-–—|,*`\"'(\[]|\b(?:is|are|at|located|coordinates?|position|bbox|box|boxes|bounding|"
    r"point|in|of|the)\b)+$",
    re.I,
)
NOTHING_PATTERN = re.compile(
    r"^\W*(?:(?:json|none|null|n/?a|empty|objects?|points?|boxes|bboxes|detections?|results?)\b\W*)*$",
    re.I,
)
NOTHING_WORDS_PATTERN = re.compile(
    r"\b(?:no|not any|zero)\b[^.!?\n]{0,60}\b(?:in (?:the|this) (?:image|picture|photo)|visible|"
    r"present|found|detected|shown|appears?|there)\b|"
    r"\bthere (?:is|are)(?:n't| no| not any| none)\b|"
    r"\b(?:cannot|can't|could not|couldn't|unable to|did not|didn't) (?:see|find|detect)\b|"
    r"\b(?:is|are|was|were|does|do)(?:n't| not)\b[^.!?\n]{0,40}"
    r"\b(?:present|visible|in (?:the|this) (?:image|picture|photo)|appear|shown|find|found)\b|"
    r"(?:没有|不存在|未发现)",
    re.I,
)
EMPTY_LIST_PATTERN = re.compile(r"^[\s`]*(?:json\s*)?[\[{][^\d]*(?:\[\s*\]|null|none)[^\d]*$", re.I)
ARTICLE_PATTERN = re.compile(r"^(?:an?|the|one|this|that)\s+")


def reports_nothing(text: str) -> bool:
    """Return whether a reply without places says that there is nothing to find: an empty list, the
    word none, a sentence such as "there are no cups", or a tag without content."""
    bare = TAG_PATTERN.sub(" ", REFERENCE_PATTERN.sub(" ", text.replace("```", " ")))
    found = (
        NOTHING_PATTERN.match(bare)
        or NOTHING_WORDS_PATTERN.search(bare)
        or EMPTY_LIST_PATTERN.match(text)
    )
    return bool(found) and bool(text.strip())


def find_labels(reply: str, claims: Sequence[Claim]) -> Iterator[str]:
    """Yield the label of each place of a reply: that of its JSON object, the reference tag before
    it, the text in or after its own tag, or else the text before it in its line. A place that
    follows another without a word between them has the other's label."""
    previous, end = "", 0
    last_span = (-1, -1)
    for claim in claims:
        start, stop = claim.span
        if claim.label or (claim.notation == "sides" and reply[start : start + 1] == "{"):
            label = claim.label
        elif claim.span == last_span:
            label = previous
        elif claim.notation == "points":
            label = _get_tag_label(reply, start, stop)
        elif claim.notation == "loc" and "_" not in reply[start:stop]:
            label = _get_label_after(reply[stop:])
        elif reply[start : start + 1] == "{" and claim.notation != "percents":
            named = QUOTED_LABEL_PATTERN.search(reply, start, stop)
            label = named[1] if named else ""
        else:
            label = _get_label_before(reply[end:start], previous)
        yield label
        previous, end, last_span = label, stop, claim.span


def _get_tag_label(reply: str, start: int, stop: int) -> str:
    """Return the text in Molmo's tag, or else its attribute `alt`."""
    if not reply[start:stop].endswith("/>") and (
        inner := re.match(r"([^<]{1,200})</", reply[stop:])
    ):
        return inner[1].strip()
    named = re.search(r"\b(?:alt|label)=[\"']([^\"']*)[\"']", reply[start:stop])
    return named[1].strip() if named else ""


def _get_label_after(text: str) -> str:
    """Return the text after PaliGemma's tokens, up to the next object."""
    words = re.split(r"[;\n]|<loc", re.sub(r"<seg\d{3}>", "", text), maxsplit=1)[0]
    return TAG_PATTERN.sub("", words).strip()


def _get_label_before(text: str, previous: str) -> str:
    """Return the last reference tag in the text between two places, or else its last line without
    bullets and connecting words; the previous label if no text is left."""
    if named := REFERENCE_PATTERN.findall(text):
        return str(named[-1]).strip()
    plain = TAG_PATTERN.sub(" ", text)
    if not re.search(r"\w", re.sub(r"\b(?:and|box|bbox|json)\b", "", plain)):
        return previous if "\n" not in text.strip("\n") else ""
    line = next((line for line in reversed(plain.split("\n")) if re.search(r"\w", line)), "")
    return LABEL_ENDING_PATTERN.sub("", BULLET_PATTERN.sub("", line)).strip(" *`\"'_")


@lru_cache(maxsize=10_000)
def normalize_label(label: str) -> str:
    """Return a label in lower case, without articles, punctuation and the s of a plural."""
    words = re.sub(r"[\W_]+", " ", label.casefold()).strip()
    words = ARTICLE_PATTERN.sub("", words)
    return re.sub(r"(?<=[^s\s])s$", "", words)


def match_label(
    label: str, categories: Collection[str], synonyms: Mapping[str, str] | None = None
) -> str:
    """Return the category that a label names: the equal one, the one given by `synonyms`, or the
    only one whose name it contains; else the label itself. An empty label means the category if
    there is only one."""
    if not label:
        return next(iter(categories)) if len(categories) == 1 else ""
    by_name = {normalize_label(name): name for name in categories}
    known = {normalize_label(name): other for name, other in (synonyms or {}).items()}
    words = normalize_label(label)
    words = normalize_label(known.get(words, words))
    if words in by_name:
        return by_name[words]
    held = [name for name in by_name if name and re.search(rf"\b{re.escape(name)}s?\b", words)]
    longest = [name for name in held if not any(name != o and name in o for o in held)]
    return by_name[longest[0]] if len(longest) == 1 else label
