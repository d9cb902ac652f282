"""Shows one sample as a page or as lines: the views after each stage, the conversation, looks, and
the answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile

from looktwice.eval.display.printable import template
from looktwice.eval.display.sample_figures import (
    Shown,
    StepFigures,
    caption,
    changed_views,
    looks_by_call,
)
from looktwice.pipelines.config.spec import digest
from looktwice.pipelines.state import Call, State

UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]|[. ]+$')
DEVICE = re.compile(r"^((?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$))", re.I)
LONGEST_NAME = 120  # bytes of a file name, before what tells it from others


def page(
    title: str, question: str, key: str | None, shown: Sequence[Shown], longest: int = 420
) -> str:
    """A self-contained HTML page with a section for each arm."""
    sections = [
        (arm, list(StepFigures(arm, longest)), _remarks(arm.state), _answer(arm)) for arm in shown
    ]
    facts = {"title": title, "question": question, "key": key, "sections": sections}
    return str(template("sample.html.j2").render(**facts))


def words(shown: Shown) -> list[str]:
    """A section of the page as lines of text: what each stage changed, the replies, looks, and the
    answer."""
    lines, looks, calls = list[str](), looks_by_call(shown.state), 0
    for number, step in enumerate(shown.state.trace):
        lines.append(
            f"  {step.slot}: {step.seconds * 1000:.1f} ms, {len(step.calls)}"
            f" call{'s' * (len(step.calls) != 1)}"
        )
        lines += [
            f"    {caption(n, view)}"
            for n, view in enumerate(changed_views(shown.state, number) or (), 1)
        ]
        for call in step.calls:
            lines += [
                f"    told: {text[:300]!r}" for text in (_told(call) if calls - 1 in looks else ())
            ]
            lines += (
                [f"    reply: {call.reply.text[:300]!r}"]
                if call.reply
                else [f"    no reply: {call.error[:300]}"]
            )
            lines += [f"    {look.words}" for look in looks.get(calls, ())]
            calls += 1
    lines += [f"  note: {note}" for note in _remarks(shown.state)]
    lines += [f"  system: {text!r}" for text in _system_texts(shown)]
    lines.append(f"  prompt: {shown.state.prompt!r}")
    lines += [f"  answer: {answer}"] if (answer := _answer(shown)) else []
    is_told = shown.outcome.startswith("FAILED")
    lines += [f"  FAILED: {shown.error.splitlines()[0]}"] if shown.error and not is_told else []
    return [*lines, f"  {shown.outcome}"] if shown.outcome else lines


def _system_texts(shown: Shown) -> list[str]:
    """The model's own, and those of the conversations."""
    calls = [call for step in shown.state.trace for call in step.calls]
    sent = [m.text for call in calls for m in call.messages if m.role == "system"]
    return [text for text in dict.fromkeys([shown.system, *sent]) if text]


def _told(call: Call) -> list[str]:
    """The words that the model was told since its last turn: after a look, what the tool gave
    back."""
    since = list(takewhile(lambda message: message.role != "assistant", reversed(call.messages)))
    return [message.text for message in reversed(since) if message.text]


def file_names(names: Iterable[str]) -> dict[str, str]:
    """A file name for each of these: one that Windows takes too, and no two alike, also where case
    does not count."""
    wanted = list(dict.fromkeys(names))
    safe = {name: _safe(name) for name in wanted}
    times = Counter(text.casefold() for text in safe.values())
    kept = {
        name for name, text in safe.items() if text and text == name and times[text.casefold()] == 1
    }
    return {
        name: text if name in kept else f"{text}-{digest(name)[:8]}" for name, text in safe.items()
    }


def _safe(name: str) -> str:
    text = DEVICE.sub(r"_\1", UNSAFE.sub("_", name))
    return text.encode(errors="replace")[:LONGEST_NAME].decode(errors="ignore").rstrip(". ")


def _remarks(state: State) -> list[str]:
    """The notes that are not shown in their place, as looks are."""
    return [note for note in state.notes if not note.startswith("look {")]


def _answer(shown: Shown) -> str:
    """The answer of the stages in the sample's own letters, or why there is none; empty where a
    reader gives it."""
    state = shown.state
    if state.answer is None:
        return state.reason or (
            "read at scoring" if state.reply and not shown.outcome and not shown.error else ""
        )
    return state.letters.get(state.answer, state.answer)
