"""Parses questions by regular expressions: what to count, what a box encloses, relations, sameness."""

from __future__ import annotations

import re

from looktwice.pipelines.sample import Sample
from looktwice.specialists.protocols import NoEvidence

RELATIONS: dict[str, tuple[str, ...]] = {
    "left": ("left of", "to the left of", "at the left side of", "on the left side of", "on the left of"),
    "right": ("right of", "to the right of", "at the right side of", "on the right side of", "on the right of"),
    "above": ("above", "over"),
    "on": ("on", "on top of", "atop"),
    "below": ("below", "beneath", "under", "underneath"),
    "inside": ("inside", "in", "within", "inside of"),
    "outside": ("outside", "outside of"),
    "contains": ("contain", "containing", "surrounding"),
    "touching": ("touching", "attached to", "connected to"),
    "near": ("near", "next to", "beside", "by", "close to", "alongside", "adjacent to", "at the side of"),
    "far": ("far from", "far away from", "away from"),
    "front": ("in front of", "ahead of"),
    "behind": ("behind", "at the back of"),
}
"""Relations that two boxes (for the last two: and depth) can decide, by their wordings in Visual Spatial Reasoning."""

KIND = {wording: kind for kind, wordings in RELATIONS.items() for wording in wordings}
WORDINGS = "|".join(sorted(map(re.escape, KIND), key=len, reverse=True))
THE = r"(?:the|an|a)"
RELATED = re.compile(
    rf"^(?:is|are|does|do) {THE} (?P<one>.+?) (?P<relation>{WORDINGS}) {THE} (?P<two>.+?)\s*\??$", re.IGNORECASE
)
VERB = r"(?:is|are|was|were|does|do|did|can|could|has|have|had|appears?|seen|in total|in (?:the|this|these)\b.*)"
COUNTED = re.compile(
    rf"how many (?:(?:different|distinct|unique|total|of the)\s+)*(?P<what>[^?.]+?)(?:\s+{VERB}\b[^?.]*)?[?.]",
    re.IGNORECASE,
)
TOTAL = re.compile(
    r"count the (?:total )?number of (?P<what>[^?.,]+?)(?:\s+(?:in|that|on)\b[^?.]*)?[?.,]", re.IGNORECASE
)
ENCLOSED = re.compile(rf"\benclos\w+\s+{THE}\s+(?P<what>[^?]+?)\s*\?", re.IGNORECASE)
SAME = re.compile(
    r"\b(?:are|is|show|shows)(?P<first>\s+not|n't)?\s+(?:(?:of|all)\s+)?(?:the\s+)?(?P<word>same|different)"
    r"(?:\s+(?P<what>[\w -]+?))?(?=\s*(?:[.,?!'\"\u2019\u201d]|$|\s(?:is|are|in)\b))",
    re.IGNORECASE,
)


def parse_count(sample: Sample) -> str:
    """`How many blue floats are there?` -> "blue floats"; `Count the number of X.` too. Raises NoEvidence."""
    return _find_windows(sample, "how many there are of something", COUNTED, TOTAL)


def parse_enclosed(sample: Sample) -> str:
    """`Which bounding box more accurately localizes and encloses the tank top?` -> "tank top". Raises NoEvidence."""
    return _find_windows(sample, "what a box encloses", ENCLOSED)


def parse_relation(sample: Sample) -> tuple[str, str, str]:
    """`Is the cat on top of the bed?` -> ("cat", "on", "bed"), a relation of `RELATIONS`. Raises NoEvidence."""
    match = RELATED.match(" ".join(sample.question.split()))
    if match is None:
        raise NoEvidence(f"no relation that boxes can decide is asked for in {sample.question!r}")
    return match["one"].lower(), KIND[match["relation"].lower()], match["two"].lower()


def parse_sameness(sample: Sample) -> tuple[bool, str]:
    """`The bags in these images are not the same bag.` -> (False, "bag"): what is claimed, and of what.

    Raises NoEvidence where the question says neither that they are the same nor that they differ.
    """
    match = SAME.search(sample.question)
    if match is None:
        raise NoEvidence(
            f"the question says neither that things are the same nor that they differ: {sample.question!r}"
        )
    same = (match["word"].lower() == "same") != bool(match["first"])
    return same, (match["what"] or "").strip().lower()


def _find_windows(sample: Sample, what: str, *patterns: re.Pattern[str]) -> str:
    for text in (sample.question, str(sample.meta.get("prompt", ""))):
        for pattern in patterns:
            if match := pattern.search(f"{text}?"):
                return " ".join(match["what"].split())
    raise NoEvidence(f"the question does not ask {what}: {sample.question!r}")
