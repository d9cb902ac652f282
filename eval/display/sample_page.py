"""One sample as a page: the views after each stage with their exact bytes, the words, the replies, the answer."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from looktwice.pipelines.notebook import thumbnail
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.state import Call, State, Step
from looktwice.pipelines.view import View

STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
section { border-top: 1px solid #8886; margin-top: 1.5rem; }
.views { display: flex; flex-wrap: wrap; gap: .8rem; }
figure { margin: 0; } figure img { max-width: 100%; border: 1px solid #8886; }
figcaption, .small { font-size: .8rem; opacity: .75; }
pre { white-space: pre-wrap; background: #8881; padding: .6rem; margin: .3rem 0; }
"""


def page(
    title: str, question: str, key: str | None, shown: Sequence[tuple[str, State, str]], longest: int = 420
) -> str:
    """A self-contained HTML page; `shown` holds, per contestant, its label, its last state and its error."""
    sections = "".join(_section(label, state, error, longest) for label, state, error in shown)
    head = f"<p>{escape(question)}</p><p class='small'>key: {escape(key if key is not None else 'hidden')}</p>"
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title><style>{STYLE}</style>"
        f"<body><h1>{escape(title)}</h1>{head}{sections}</body></html>"
    )


def words(state: State) -> list[str]:
    """The same as plain lines: what each stage changed, what was sent and what came back."""
    lines: list[str] = []
    before: tuple[View, ...] = ()
    for step in state.trace:
        changed = step.views if any(a is not b for a, b in zip(step.views, before, strict=False)) else ()
        changed = step.views if len(step.views) != len(before) else changed
        lines.append(f"  {step.slot}: {step.seconds * 1000:.1f} ms, {len(step.calls)} calls")
        lines += [f"    {_caption(number, view)}" for number, view in enumerate(changed, 1)]
        lines += [f"    reply: {call.reply.text[:300]!r}" for call in step.calls if call.reply]
        before = step.views
    answer = _answer(state)
    lines += [f"  note: {note}" for note in state.notes]
    return [*lines, f"  prompt: {state.prompt!r}", f"  answer: {answer}"]


def _answer(state: State) -> str:
    """The answer in the sample's own letters, or why there is none."""
    if state.answer is None:
        return state.reason or "none"
    return state.letters.get(state.answer, state.answer)


def _section(label: str, state: State, error: str, longest: int) -> str:
    before: tuple[View, ...] = ()
    parts = []
    for step in state.trace:
        parts.append(_step(step, before, longest))
        before = step.views
    answer = _answer(state)
    notes = "".join(f"<p class='small'>note: {escape(note)}</p>" for note in state.notes)
    failed = notes + (f"<h3>failed</h3><pre>{escape(error)}</pre>" if error else "")
    return f"<section><h2>{escape(label)}</h2>{''.join(parts)}{failed}<p><b>answer</b> {escape(answer)}</p></section>"


def _step(step: Step, before: Sequence[View], longest: int) -> str:
    same = len(before) == len(step.views) and all(a is b for a, b in zip(step.views, before, strict=True))
    figures = "<p class='small'>views unchanged</p>" if same else _views(step.views, longest)
    calls = "".join(_call(call) for call in step.calls)
    return f"<h3>{escape(step.slot)} <span class='small'>{step.seconds * 1000:.1f} ms</span></h3>{figures}{calls}"


def _views(views: Sequence[View], longest: int) -> str:
    figures = "".join(_figure(number, view, longest) for number, view in enumerate(views, 1))
    return f"<div class='views'>{figures}</div>"


def _figure(number: int, view: View, longest: int) -> str:
    try:
        image = f"<img src='{thumbnail(view.picture, longest)}'>"
    except PictureError as exc:
        image = f"<p>{escape(str(exc))}</p>"
    return f"<figure>{image}<figcaption>{escape(_caption(number, view))}</figcaption></figure>"


def _caption(number: int, view: View) -> str:
    try:
        payload = view.picture.payload
    except PictureError as exc:
        return f"view {number}: {exc}"
    width, height = view.size
    why = f", re-encoded: {payload.note}" if payload.note else ", the source's own bytes"
    kind = payload.media_type.removeprefix("image/")
    return f"view {number}: {width}x{height} px, {len(payload.data)} bytes {kind}, sha256 {payload.sha[:12]}{why}"


def _call(call: Call) -> str:
    sent = "".join(
        f"<p class='small'>{m.role}, {len(m.views)} images</p><pre>{escape(m.text)}</pre>" for m in call.messages
    )
    if call.reply is None:
        return f"{sent}<p class='small'>no reply</p><pre>{escape(call.error)}</pre>"
    thought = f"<p class='small'>reasoning</p><pre>{escape(call.reply.reasoning)}</pre>" if call.reply.reasoning else ""
    return f"{sent}{thought}<p class='small'>reply ({call.reply.finish})</p><pre>{escape(call.reply.text)}</pre>"
