"""`looktwice check`: runs one sample of each task through the stages of every arm, and says what a
run would ask."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from looktwice.eval.display.sample_figures import Shown
from looktwice.eval.display.sample_page import file_names, page, words
from looktwice.eval.records.records import PointRow, Record
from looktwice.eval.records.unchanged import SentByArm, kept_notes, request_of, say_unchanged
from looktwice.eval.records.writer import make_point_rows, make_record
from looktwice.eval.runs.dry_run import CHARACTERS, DryRun, count_requests, rough_models, try_arm
from looktwice.eval.runs.replay import HashOnlyBlobs
from looktwice.eval.scoring.labels import baseline_of, labels
from looktwice.eval.scoring.score import price_lines, price_of
from looktwice.eval.tasks.base import MadeTask, TaskError, checked_items, count_items
from looktwice.eval.tasks.folder import Folder
from looktwice.pipelines.config.arm import Arm, say_no_answer
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import find_settings, spec
from looktwice.pipelines.counted import counted
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.answers import shorten
from looktwice.pipelines.models.cache import close_model
from looktwice.pipelines.models.keys import MissingKeyError
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.sample import Item, Sample, check_marks, say_key_fault
from looktwice.pipelines.state import Call
from looktwice.prompting.agent.agent import Agent

SAMPLES_AT_ONCE = 16  # whose images are in memory while all are opened
TRIED = 8  # samples of a task that are tried where arms send the same for the first
SECONDS = 5.0  # after which no further sample is tried


def check(
    plan: Plan,
    out: Path | None = None,
    limit: int | None = None,
    every_image: bool = False,
    ask: bool = False,
) -> Iterator[str]:
    """Describe in lines what the stages of each arm did to the first sample, warn of likely
    mistakes, and say what a run of `limit` samples of each task would ask.

    With `out`, a page for each task with the views after each stage is written there. `every_image`
    opens all images of all samples, and looks at their ids and keys; `ask` sends each model its
    first request. Raises ConfigError where a pipeline can give no answer, or fails before it asks
    anything, or a model cannot be asked, TaskError where samples have faults, and RunError where a
    setting holds a key.
    """
    rows, tasks = make_point_rows(plan), {arm.task_id: arm.task for arm in plan.points}
    items = {task_id: next(checked_items(task)) for task_id, task in tasks.items()}
    names = labels(rows[: len(plan.points)])
    trials = [try_arm(arm, items[arm.task_id]) for arm in plan.points]
    faults = [*_model_faults(plan), *_stage_faults(trials)]
    asked = list(_ask_once(trials, faults)) if ask and not faults else []
    verdict = f"{counted(len(faults), 'fault')}, named at the end" if faults else "no faults"
    if plan.readings:
        verdict += f"; {len(plan.readings)} more read their replies with another reader"
    yield f"{counted(len(plan.points), 'arm')} (contestant x task x setting), {verdict}"
    for trial in trials:
        label, task = names[trial.arm.id]
        yield f"{label} on {task}, sample {trial.item.sample.id}"
        yield from words(_shown(trial, names))
        yield from (f"  warning: {warning}" for warning in _warnings(trial))
    if out is not None:
        yield from _write_pages(out, trials, names)
    yield from describe_requests(plan, trials, limit)
    yield from _look_at_marks(tasks, limit)
    if every_image:
        yield from _look_at_samples(plan, limit)
    yield from _say_unchanged(trials, rows[: len(plan.points)], names)
    yield from asked
    yield from _say_confused_labels(trials)
    lacking = [model.missing() for model in plan.models if hasattr(model, "missing")]
    yield from (f"a run cannot ask yet: {words}" for words in dict.fromkeys(lacking) if words)
    if faults:
        raise ConfigError(faults)


def _say_unchanged(
    trials: Sequence[DryRun], rows: Sequence[PointRow], names: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    """A warning for each slot that changed no request of the samples that were tried, and on how
    many that is seen.

    Arms that sent something of their own for the first sample are tried on no further one.
    """
    records = {trial.arm.id: [_dry_record(trial)] for trial in trials}
    sent = Counter((trial.arm.task_id, request_of(records[trial.arm.id][0])) for trial in trials)
    doubtful: dict[str, list[Arm]] = defaultdict(list)
    for arm in (trial.arm for trial in trials):
        first = records[arm.id][0]
        if sent[arm.task_id, request_of(first)] > 1 or kept_notes(first):
            doubtful[arm.task_id].append(arm)
    begun = time.monotonic()
    for some in doubtful.values():
        for item in islice(checked_items(some[0].task), 1, TRIED):
            if time.monotonic() - begun > SECONDS:
                break
            for arm in some:
                records[arm.id].append(_dry_record(try_arm(arm, item)))
    arms = []
    for trial, row in zip(trials, rows, strict=True):
        rival, slots = baseline_of(row, rows), list(trial.arm.stages)
        asking = [slots.index(entry.slot) for entry in trial.state.trace if entry.calls]
        # what follows from replies that are made up: from the first that asks on
        made_up = slots[min(asking) :] if asking else slots
        requests = {record.sample: request_of(record) for record in records[row.id]}
        kept = {record.sample: kept_notes(record) for record in records[row.id]}
        against = rival.id if rival else ""
        arms.append(SentByArm(row, *names[row.id], requests, kept, against, made_up))
    if warnings := say_unchanged(arms):
        most = max(map(len, records.values()))
        yield f"of the first {counted(most, 'sample')} of each task at most, which were tried:"
        yield from (f"  warning: {line}" for line in warnings)


def _dry_record(trial: DryRun) -> Record:
    sample, blobs = trial.item.sample, HashOnlyBlobs(Path())
    return make_record(trial.arm, sample, sample.sha, trial.state, blobs, trial.error)


def _model_faults(plan: Plan) -> list[str]:
    """What a run would be refused for, except a key that is missing: it can be set later."""
    faults = []
    for model in (model for model in plan.models if getattr(model, "remote", False)):
        try:
            model.check()
        except MissingKeyError:
            continue
        except ModelError as exc:
            faults.append(f"model {_name_of(model)!r}: {exc}")
    return list(dict.fromkeys(faults))


def _name_of(model: Any) -> str:
    return str(getattr(model, "model", type(model).__name__))


def _ask_once(trials: Sequence[DryRun], faults: list[str]) -> Iterator[str]:
    """Send each model the first request of a run and say what came; what is wrong goes into
    `faults`, too."""
    first: dict[str, tuple[Call, Any]] = {}
    for trial in trials:
        for call, request in zip(trial.calls, trial.requests, strict=False):
            model = request.model
            if getattr(model, "remote", False) and not getattr(model, "missing", str)():
                first.setdefault(model.identity, (call, model))
    for call, model in first.values():
        asked = getattr(model, "chat", model)  # not in a batch, which may take a day
        try:
            reply = asked(call.messages, call.draw, call.options)
        except ModelError as exc:
            faults += [] if exc.retryable else [f"model {_name_of(model)!r}: {exc}"]
            yield f"asked {_name_of(model)} once: {exc}"
            continue
        finally:
            close_model(asked)
        used, prices = reply.usage, getattr(asked, "prices", None)
        cost = f", cost {price_of(used, prices):.2g}" if prices else ""
        yield (
            f"asked {_name_of(model)} once: {shorten(reply.text, 60)!r} after {reply.seconds:.2g}"
            f" s, {used.tokens_in:,} tokens in, {used.tokens_out:,} out{cost}"
        )


def _stage_faults(trials: Sequence[DryRun]) -> list[str]:
    """Pipelines of which no answer can come, and stages that fail before the made-up reply can be
    to blame."""
    faults = []
    for trial in trials:
        place = f"contestants.{trial.arm.contestant}.stages"
        if trial.error and not any(call.reply for call in trial.calls):
            slot = f".{trial.state.trace[-1].slot}" if trial.state.trace else ""
            sample = f"sample {trial.item.sample.id} of {trial.arm.task_name}"
            faults.append(f"{place}{slot}: {sample}: {trial.error.splitlines()[0]}")
        elif trial.state.silent and not trial.error:
            faults.append(f"{place}: {say_no_answer(trial.arm.stages)}")
    return list(dict.fromkeys(faults))


def describe_requests(
    plan: Plan, trials: Sequence[DryRun], limit: int | None = None
) -> Iterator[str]:
    """What a run asks, a line for each contestant and one for all of them, and how that was
    counted."""
    sizes = {arm.task_id: count_items(arm.task) for arm in plan.points}
    samples = {task: min(size, limit or size) for task, size in sizes.items()}
    whole = count_requests(trials, samples)
    if not whole.requests:
        yield "a run asks no model"
        return
    silent = []
    yield "a run asks, without what its cache has already:"
    for name in dict.fromkeys(arm.contestant for arm in plan.points):
        own = [trial for trial in trials if trial.arm.contestant == name]
        amount = count_requests(own, samples)
        if amount.requests:
            yield f"  {name}: {amount}"
        else:
            silent.append(name)
    if silent:
        yield f"  {', '.join(silent)}: no requests"
    yield f"  in all: {whole}"
    yield from (f"  {line}" for line in _assumptions(trials, samples))


def _assumptions(trials: Sequence[DryRun], samples: Mapping[str, int]) -> Iterator[str]:
    """How the requests and tokens were counted, and where that is a guess."""
    yield "counted on the first sample of each task, with (A) as the reply to everything"
    yield (
        f"{CHARACTERS} characters of words are a token; a request that several arms make of a"
        " sample is one"
    )
    if rough := rough_models(trials):
        yield (
            f"no rule for pictures is published for {', '.join(rough)}: one token for 28 x 28"
            " pixels is a guess"
        )
    for name in dict.fromkeys(trial.arm.contestant for trial in trials if trial.error):
        yield f"{name}: a stage failed, so that its later requests are not counted"
    yield from price_lines(trial.arm for trial in trials)
    most: Counter[str] = Counter()
    for arm in (trial.arm for trial in trials):
        for agent in find_settings(arm.stages, Agent):
            calls = 1 + agent.bounds.steps * (2 if agent.probe else 1)
            most[arm.contestant] += calls * samples[arm.task_id] * arm.draws
    for name, calls in most.items():
        yield (
            f"{name}: an agent, counted without looks; with all that its bounds allow up to"
            f" {calls:,} requests"
        )


def _look_at_marks(tasks: Mapping[str, Any], limit: int | None) -> Iterator[str]:
    """A line for each folder of questions with marks outside their images, whose samples would
    fail."""
    for task in (task for task in tasks.values() if isinstance(task, Folder)):
        samples = (item.sample for item in islice(checked_items(task), limit))
        if faults := [
            fault for sample in samples if sample.marks and (fault := _mark_fault(sample))
        ]:
            yield (
                f"{counted(len(faults), 'sample')} would fail for a mark outside its image; the"
                f" first: {faults[0]}"
            )


def _mark_fault(sample: Sample) -> str:
    try:
        check_marks(sample)
    except PictureError:  # told where images are opened
        return ""
    except ValueError as exc:
        return str(exc)
    return ""


def _look_at_samples(plan: Plan, limit: int | None) -> Iterator[str]:
    """Name images that cannot be opened, wrong keys, and ids that come twice. Raises TaskError with
    their number."""
    opened, faults = 0, 0
    for name, task in {arm.task_id: (arm.task_name, arm.task) for arm in plan.points}.values():
        items, seen = islice(checked_items(task), limit), set[str]()
        with ThreadPoolExecutor() as pool:
            while some := list(islice(items, SAMPLES_AT_ONCE)):
                for item, (images, wrong) in zip(some, pool.map(_open, some), strict=True):
                    if item.sample.id in seen:
                        wrong.append("the id comes twice; ids must be unique")
                    seen.add(item.sample.id)
                    opened, faults = opened + images, faults + len(wrong)
                    yield from (f"{name}, sample {item.sample.id}: {fault}" for fault in wrong)
    if faults:
        raise TaskError(
            f"{counted(faults, 'fault')} in the samples and their {counted(opened, 'image')}"
        )
    yield f"{counted(opened, 'image')} opened, no faults"


def _open(item: Item) -> tuple[int, list[str]]:
    """How many images a sample has, those of its choices included, why some cannot be decoded, and
    a wrong key."""
    shown = (*item.sample.images, *item.sample.choices)
    images = [image for image in shown if isinstance(image, Picture)]
    wrong = say_key_fault(item.answer, len(item.sample.choices)), _mark_fault(item.sample)
    faults = list(filter(None, wrong))
    for image in images:
        try:
            image.pixels  # noqa: B018  decodes it
        except PictureError as exc:
            faults.append(str(exc))
    return len(images), faults


def _shown(trial: DryRun, names: Mapping[str, tuple[str, str]]) -> Shown:
    system = getattr(trial.arm.model, "system", "")
    label, _ = names[trial.arm.id]
    return Shown(label, trial.state, trial.error, stages=trial.arm.stages, system=system)


def _warnings(trial: DryRun) -> Iterator[str]:
    """Of every stage after the last model call that changes views or prompt, which no model sees,
    and of draws that are alike."""
    arm, trace = trial.arm, trial.state.trace
    asked = [number for number, entry in enumerate(trace) if entry.calls]
    for before, after in pairwise(trace[asked[-1] :] if asked else ()):
        if (before.views, before.prompt) != (after.views, after.prompt):
            yield (
                f"stage {after.slot!r} changes the views or the prompt after the last call; no"
                " model sees it"
            )
    temperature = (spec(arm.model) or {}).get("temperature") if arm.model is not None else None
    if arm.draws > 1 and temperature == 0:
        yield f"{arm.draws} draws at temperature 0 are separate calls that will mostly agree"


def _say_confused_labels(trials: Sequence[DryRun]) -> Iterator[str]:
    """A warning of labels that a marker draws and that are letters of choices which speak of
    something else; in made questions the letters are the benchmark's own."""
    confused: dict[str, list[str]] = defaultdict(list)
    for trial in (trial for trial in trials if not isinstance(trial.arm.task, MadeTask)):
        sample = trial.state.sample
        choices = dict(zip(sample.letters, sample.choices, strict=True))
        drawing = [stage for stage in trial.arm.stages.values() if hasattr(stage, "drawn_labels")]
        labels = [text for stage in drawing for text in stage.drawn_labels(sample.marks)]
        for label in (label for label in dict.fromkeys(labels) if label in choices):
            choice = choices[label]
            if not re.search(rf"\b{label}\b", str(choice)):
                shown = "a picture" if isinstance(choice, Picture) else repr(choice)
                warning = f"{label} is drawn, and choice ({label}) is {shown}"
                confused[trial.arm.task_name].append(warning)
    if confused:
        examples = "; ".join(dict.fromkeys(next(iter(confused.values()))))
        yield (
            "warning: labels are letters of choices that do not speak of them, on"
            f" {', '.join(confused)}: {examples}; `label: {{text: ...}}` draws others, `label:"
            " null` none"
        )


def _write_pages(
    out: Path, trials: Sequence[DryRun], names: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    """A page for each task, named after its sample, and after the task where another has a sample
    of this name."""
    out.mkdir(parents=True, exist_ok=True)
    pages: dict[str, list[DryRun]] = defaultdict(list)
    for trial in trials:
        pages[trial.arm.task_id].append(trial)
    ids = Counter(some[0].item.sample.id for some in pages.values())
    for some in pages.values():
        sample, answer = some[0].item.sample, some[0].item.answer
        _, task = names[some[0].arm.id]
        name = sample.id if ids[sample.id] == 1 else f"{sample.id} {task}"
        path = out / f"{file_names([name])[name]}.html"
        shown = [_shown(trial, names) for trial in some]
        write_file(path, page(sample.id, sample.question, answer, shown))
        yield f"views: {path}"
