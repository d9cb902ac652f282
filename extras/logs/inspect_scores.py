"""The scorers in a log of inspect_ai: labels with their names and settings, and their grades."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from looktwice.eval.tasks.base import TaskError
from looktwice.extras.logs.log import MISSING_VALUE, Cells, Grade, get_at_path, parse_value

__all__ = ["make_scorer_labels", "read_grades"]

NOT_GRADED_REASONS = ("grader_failed", "scoring_failed")
UNANSWERED_REASONS = ("no_response", "invalid_response_format", "refusal")
"""Reasons that inspect_ai records with scores: NOT_GRADED_REASONS if the scorer failed,
UNANSWERED_REASONS if the model gave no answer."""
DEFAULT_SETTINGS: Cells = {
    "location": "end",
    "ignore_case": True,
    "numeric": False,
    "match_all": False,
}
"""The default settings of inspect_ai's own scorers, which a log may state or omit."""
SETTINGS_PATTERN = re.compile(r"\(.*\)(?=/|$)")
MAX_SETTING_LENGTH = 40  # longest setting, in characters, that is written into a scorer's name


def make_scorer_labels(data: Cells) -> dict[str, str]:
    """Make labels for the scorers that have settings, so that `match(location=any)` and `match`
    count as different scorers."""
    labels = dict[str, str]()
    for entry in (*get_at_path(data, "eval", "scorers"), *get_at_path(data, "results", "scores")):
        settings = list[str]()
        for name, value in (entry.get("options") or entry.get("params") or {}).items():
            if name not in DEFAULT_SETTINGS or DEFAULT_SETTINGS[name] != value:
                text = str(value)
                digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
                settings.append(f"{name}={text if len(text) <= MAX_SETTING_LENGTH else digest}")
        if settings:
            labels[str(entry["name"])] = f"{entry['name']}({', '.join(sorted(settings))})"
    return labels


def read_grades(
    scores: Mapping[str, Cells], scorer: str, labels: Mapping[str, str]
) -> dict[str, Grade]:
    """Return the grade of each scorer that matches the name `scorer`, or of all scorers if it is
    empty, in the order of the log.

    A scorer with several values counts as several scorers named `scorer/name`. Raises TaskError for
    an unknown name.
    """
    grades = {
        own: grade
        for name, score in scores.items()
        for own, grade in _list_grades(labels.get(name, name), score)
    }
    if not scorer or not grades:
        return grades
    if scorer in grades:
        return {scorer: grades[scorer]}
    # a bare name matches the scorer with any settings; its parts remain separate
    bare = {SETTINGS_PATTERN.sub("", name): grade for name, grade in grades.items()}
    chosen = {n: grade for n, grade in bare.items() if scorer in (n, n.partition("/")[0])}
    if not chosen:
        raise TaskError(f"no scorer is named {scorer!r}; the scorers are {', '.join(grades)}")
    return chosen


def _list_grades(name: str, score: Cells) -> Iterator[tuple[str, Grade]]:
    value: Any = score.get("value")
    if isinstance(value, Mapping) and value:
        for part, each in value.items():
            yield f"{name}/{part}", _convert_grade(each, score)
    else:
        yield name, _convert_grade(value, score)


def _convert_grade(value: object, score: Cells) -> Grade:
    """Convert a recorded value to a grade.

    A value that is missing, or that inspect_ai could not compute, is a failure; if the scorer found
    no answer, the reply is unreadable.
    """
    reason = score.get("reason") or get_at_path(score, "metadata", "unscored_reason")
    grade = Grade.from_value(parse_value(value), score.get("answer"))
    if reason in NOT_GRADED_REASONS or grade.value != grade.value:
        return Grade(MISSING_VALUE, "failed", grade.answer)
    if value == "N" or (reason in UNANSWERED_REASONS and not grade.value):
        return grade._replace(verdict="unreadable")
    return grade
