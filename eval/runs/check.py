"""`looktwice check`: runs one sample of each task through the stages of every arm, with a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from looktwice.eval.display.sample_page import page, words
from looktwice.eval.records.from_state import describe_failure
from looktwice.eval.scoring.labels import label_with_changes
from looktwice.pipelines.config.arm import Arm, say_no_answer
from looktwice.pipelines.config.build import ConfigError
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.models.offline import Scripted
from looktwice.pipelines.pipeline import RecordingModel, StageFailed, cause_of, step
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import State


def check(plan: Plan, out: Path | None = None) -> Iterator[str]:
    """Describe in lines what the stages of each arm did to the first sample, and warn of likely mistakes.

    With `out`, a page for each task with the views after each stage is written there. Raises ConfigError where a
    pipeline can give no answer.
    """
    items = {task_id: next(iter(task)) for task_id, task in {arm.task_id: arm.task for arm in plan.points}.items()}
    yield f"{len(plan.points)} {'point' if len(plan.points) == 1 else 'points'}, no faults"
    pages: dict[str, list[tuple[str, State, str]]] = {}
    silent: dict[str, str] = {}
    for arm in plan.points:
        item = items[arm.task_id]
        state, error = _run_stages(arm, item)
        pages.setdefault(arm.task_id, []).append((label_with_changes(arm.contestant, arm.changes), state, error))
        yield f"{label_with_changes(arm.contestant, arm.changes)} on {arm.task_name}, sample {item.sample.id}"
        yield from words(state)
        yield from (f"  warning: {line}" for line in [*_late_stages(state), *_draw_warnings(arm)])
        if error:
            yield f"  FAILED: {error.splitlines()[0]}"
        elif state.silent:
            silent[arm.contestant] = f"contestants.{arm.contestant}.stages: {say_no_answer(arm.stages)}"
    if out is not None:
        yield from _write_pages(out, items, pages)
    if silent:
        raise ConfigError(list(silent.values()))


def _run_stages(arm: Arm, item: Item) -> tuple[State, str]:
    model = RecordingModel(Scripted("(A)"), item.sample.id, wrap_second=lambda second: Scripted("(A)"))
    state = State.start(item.sample, arm.seed)
    for slot, stage in arm.stages.items():
        if state.ended:
            break
        try:
            state = step(slot, stage, state, model)
        except StageFailed as exc:
            return exc.state, describe_failure(cause_of(exc))
    return state, ""


def _late_stages(state: State) -> list[str]:
    """A warning for every stage after the last model call that changes views or prompt, which no model sees."""
    asked = [number for number, entry in enumerate(state.trace) if entry.calls]
    if not asked:
        return []
    late = state.trace[asked[-1] :]
    pairs = [(a, b) for a, b in pairwise(late) if a.views != b.views or a.prompt != b.prompt]
    return [f"stage {b.slot!r} changes the views or the prompt after the last call; no model sees it" for _, b in pairs]


def _draw_warnings(arm: Arm) -> list[str]:
    temperature = (spec(arm.model) or {}).get("temperature") if arm.model is not None else None
    if arm.draws > 1 and temperature == 0:
        return [f"{arm.draws} draws at temperature 0 are separate calls that will mostly agree"]
    return []


def _write_pages(out: Path, items: dict[str, Item], pages: dict[str, list[tuple[str, State, str]]]) -> Iterator[str]:
    out.mkdir(parents=True, exist_ok=True)
    for task_id, shown in pages.items():
        sample = items[task_id].sample
        path = out / f"{sample.id.replace('/', '_')}.html"
        path.write_text(page(sample.id, sample.question, items[task_id].answer, shown), encoding="utf-8")
        yield f"views: {path}"
