"""The judge's pass that grades descriptions of videos (VLM2-Bench, section 3.2: AB 0 or 1, ABA 0, 1
or 2): its prompt, in our own words, and the parser of its score."""

from __future__ import annotations

import re

from looktwice.eval.records.judgements import DESCRIPTION_PASS
from looktwice.extras.judging.passes import (
    DESCRIPTION_SCORER,
    JudgeCase,
    JudgePass,
    JudgeVerdict,
    make_prompt,
)
from looktwice.pipelines.model import Message

SCENE_NOTES = {
    "AB": (
        "The video has two scenes: one person is seen in the first, a different person in the"
        " second."
    ),
    "ABA": (
        "The video has three scenes: a person, then a different person, then the first person"
        " again."
    ),
}
GRADE_SCALES = {
    "AB": (
        "1: the description makes clear that the second scene shows another person than the first.",
        (
            "0: it takes them for one person, speaks of one person only, or leaves open whether"
            " they are the same."
        ),
    ),
    "ABA": (
        (
            "2: the description tells the two persons apart and says that the first one comes back"
            " at the end."
        ),
        "1: it tells two persons apart, but does not recognise the last one as the first.",
        "0: it does not tell two persons apart.",
    ),
}


def build_video_prompt(case: JudgeCase) -> Message:
    """Build the prompt from the scenes, the scale and the description. Raises KeyError for a video
    that is neither AB nor ABA."""
    kind = str(case.sample.meta["type"])
    lines = ["You grade the description of a short video.", SCENE_NOTES[kind], *GRADE_SCALES[kind]]
    lines.append(
        "Nothing else about the description counts: neither its style nor its other details."
    )
    end = "Say in one sentence why, then end with a line that reads `Score: ` and the number."
    return Message("user", (make_prompt(lines, case, end),))


def parse_video_score(text: str, case: JudgeCase) -> JudgeVerdict:
    """Parse the number after the last "Score:", if it is on the scale."""
    scores = re.findall(r"\bScore\W{0,4}:\W{0,4}(\d+(?:\.\d+)?)", text, re.I)
    highest = len(GRADE_SCALES[str(case.sample.meta["type"])]) - 1
    if not scores:
        return JudgeVerdict(reason="the judge's reply has no score")
    if scores[-1] not in map(str, range(highest + 1)):
        return JudgeVerdict(reason=f"the score {scores[-1]} is not on the scale of 0 to {highest}")
    return JudgeVerdict(answer=scores[-1])


VIDEO_PASS = JudgePass(
    DESCRIPTION_PASS, DESCRIPTION_SCORER, lambda case: True, build_video_prompt, parse_video_score
)
"""The pass that `looktwice judge RUN --pass vid` runs."""
