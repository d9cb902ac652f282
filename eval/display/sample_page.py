"""Shows one sample as a page or as lines: the views after each stage, the prompts, the replies, the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from looktwice.eval.display.templates import template
from looktwice.pipelines.notebook import thumbnail
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View


@dataclass(frozen=True)
class ViewFigure:
    """A view on the page: its picture as a data URL, or why it cannot be shown."""

    caption: str
    image: str = ""
    fault: str = ""


def page(
    title: str, question: str, key: str | None, shown: Sequence[tuple[str, State, str]], longest: int = 420
) -> str:
    """A self-contained HTML page; `shown` holds the label, last state and error of each contestant."""

    def changed(state: State, step: int) -> list[ViewFigure] | None:
        views = changed_views(state, step)
        return None if views is None else [_figure(number, view, longest) for number, view in enumerate(views, 1)]

    facts = {"title": title, "question": question, "key": key, "shown": shown, "changed": changed, "answer": _answer}
    return str(template("sample.html.j2").render(**facts))


def words(state: State) -> list[str]:
    """The content of the page as lines of text: what each stage changed, what was sent and the replies."""
    lines: list[str] = []
    for number, step in enumerate(state.trace):
        lines.append(f"  {step.slot}: {step.seconds * 1000:.1f} ms, {len(step.calls)} calls")
        lines += [f"    {_caption(place, view)}" for place, view in enumerate(changed_views(state, number) or (), 1)]
        lines += [f"    reply: {call.reply.text[:300]!r}" for call in step.calls if call.reply]
    lines += [f"  note: {note}" for note in state.notes]
    return [*lines, f"  prompt: {state.prompt!r}", f"  answer: {_answer(state)}"]


def changed_views(state: State, step: int) -> tuple[View, ...] | None:
    """The views after a stage, None if the stage did not change them."""
    views, before = state.trace[step].views, state.trace[step - 1].views if step else ()
    same = len(before) == len(views) and all(a is b for a, b in zip(before, views, strict=True))
    return None if same else views


def _answer(state: State) -> str:
    """The answer in the sample's own letters, or the reason why there is no answer."""
    if state.answer is None:
        return state.reason or "none"
    return state.letters.get(state.answer, state.answer)


def _figure(number: int, view: View, longest: int) -> ViewFigure:
    try:
        return ViewFigure(_caption(number, view), image=thumbnail(view.picture, longest))
    except PictureError as exc:
        return ViewFigure(_caption(number, view), fault=str(exc))


def _caption(number: int, view: View) -> str:
    try:
        payload = view.picture.payload
    except PictureError as exc:
        return f"view {number}: {exc}"
    width, height = view.size
    encoding = f", re-encoded: {payload.note}" if payload.note else ", the original bytes"
    kind = payload.media_type.removeprefix("image/")
    return f"view {number}: {width}x{height} px, {len(payload.data)} bytes {kind}, sha256 {payload.sha[:12]}{encoding}"
