"""`looktwice check`: runs one sample of each task through the stages of every arm, and estimates
the requests of a run."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from pathlib import Path

from looktwice.eval.display.printable import make_file_names
from looktwice.eval.display.sample_page import ShownArm, format_arm, format_outcome, render_sample
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.records import Record
from looktwice.eval.records.writer import describe_failure, make_point_rows, make_record
from looktwice.eval.runs.dry_run import (
    CHARACTERS_PER_TOKEN,
    DryRun,
    HashOnlyBlobs,
    StandIn,
    count_requests,
    find_key_faults,
    try_arm,
    warn_of_placeholders,
)
from looktwice.eval.runs.sample_faults import find_sample_faults, open_item
from looktwice.eval.scoring.labels import find_baseline, make_labels
from looktwice.eval.scoring.notes import ArmRequests, describe_unchanged, list_prices, pack_requests
from looktwice.eval.scoring.record_scorer import estimate_price
from looktwice.eval.tasks.base import GeneratedTask, check_items, count_items, prefix_task_errors
from looktwice.eval.tasks.own_questions import Folder
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.load import find_extension_keys
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm, describe_missing_answer, find_settings, spec
from looktwice.pipelines.counted import format_count, format_number, shorten_text
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.model import ModelError, close_model, get_model_name
from looktwice.pipelines.models.image_tokens import find_image_rule
from looktwice.pipelines.models.keys import MissingKeyError
from looktwice.pipelines.models.replay import Replay
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import RecordingModel, StageFailed, run_stage
from looktwice.pipelines.sample import Item, describe_key_fault
from looktwice.prompting.agent.agent import Agent

SAMPLES_AT_ONCE = 16  # samples whose images are in memory at a time
MAX_TRIED_SAMPLES = 8  # samples of a task to try, if arms send the same request for the first one
MAX_TRIAL_SECONDS = 5.0  # no further sample is tried after this time


def check(
    plan: Plan,
    out: Path | None = None,
    limit: int | None = None,
    whole: bool = False,
    ask: bool = False,
) -> Iterator[str]:
    """Yield a short report on a plan: its faults, the effect of its stages on one sample, and the
    requests that a run of `limit` samples of each task would send, with warnings of likely
    mistakes.

    `whole` describes every arm and the requests of each contestant, opens all images of all
    samples, and checks their ids and correct answers. `out` is a folder for one page per task,
    which shows the views after each stage. `ask` sends each model its first request. Raises
    ConfigError for a pipeline that cannot give an answer or that fails before it calls its model,
    for a model that cannot be asked, and for a sample that would fail; TaskError for a task that
    cannot be read; and RunError for a setting that contains an API key.
    """
    tried = PlanCheck(plan, limit)
    faults = dict.fromkeys(
        [*tried.find_model_faults(), *tried.find_stage_faults(), *find_key_faults(plan, limit)]
    )
    asked = [*tried.ask_once(faults)] if ask and not faults else []
    faults |= dict.fromkeys(tried.describe_sample_faults())
    verdict = f"{format_count(len(faults), 'fault')}, listed at the end" if faults else "no faults"
    if plan.readings:
        verdict += f"; {len(plan.readings)} more read the same replies with another reader"
    yield f"{format_count(len(plan.points), 'arm')} (contestant x task x setting), {verdict}"
    yield from tried.describe_left_out()
    yield from tried.describe_arms() if whole else tried.describe_first_arm()
    if out is not None:
        yield from tried.write_pages(out)
    yield from tried.describe_requests(whole)
    yield from tried.warn_of_marks()
    for name, key in find_extension_keys(plan.config).items():
        yield from key.warn(plan.config[name], plan, MAX_TRIED_SAMPLES)
    yield from warn_of_placeholders(tried.trials, limit)
    if whole:
        yield from tried.check_samples(faults)
    yield from tried.warn_of_unchanged()
    yield from asked
    yield from tried.warn_of_confused_labels()
    lacking = [model.missing() for model in plan.models if hasattr(model, "missing")]
    yield from (f"a run cannot start yet: {text}" for text in dict.fromkeys(lacking) if text)
    if not whole:
        yield "--all describes every arm and its requests, and opens every image"
    if faults:
        raise ConfigError([*faults])


class PlanCheck:
    """Every arm of a plan, dry-run on the first sample of its task.

    `limit` is the number of samples of each task that a run would ask, and `names` are the arms'
    labels in tables.
    """

    def __init__(self, plan: Plan, limit: int | None) -> None:
        self.plan, self.limit = plan, limit
        self.tasks = {arm.task_id: arm.task for arm in plan.points}
        items = dict[str, Item]()
        for arm in plan.points:
            if arm.task_id not in items:
                with prefix_task_errors(arm.task_name):
                    items[arm.task_id] = next(check_items(arm.task))
        self.rows = make_point_rows(plan)[: len(plan.points)]
        self.names = make_labels(self.rows)
        self.trials = [try_arm(arm, items[arm.task_id]) for arm in plan.points]
        # samples of a made task have none of these faults
        read = {key: t for key, t in self.tasks.items() if not isinstance(t, GeneratedTask)}
        self.found = {key: find_sample_faults(task, limit) for key, task in read.items()}

    def find_model_faults(self) -> Iterator[str]:
        """Yield the faults of models that prevent a run, except a missing API key, which can still
        be set."""
        for model in self.plan.models:
            try:
                if getattr(model, "remote", False):
                    model.check()
            except MissingKeyError:
                continue
            except ModelError as exc:
                yield f"model {get_model_name(model)!r}: {exc}"

    def find_stage_faults(self) -> Iterator[str]:
        """Yield first samples with invalid ground truth, pipelines that can give no answer,
        and stages that fail before any scripted reply could be the cause."""
        for trial in self.trials:
            shown = trial.item.sample
            if wrong := describe_key_fault(trial.item.answer, len(shown.choices)):
                yield f"{trial.arm.task_name}, sample {shown.id}: {wrong}"
            place = f"contestants.{trial.arm.contestant}.stages"
            if trial.error and not any(call.reply for call in trial.calls):
                slot = f".{trial.state.trace[-1].slot}" if trial.state.trace else ""
                sample = f"sample {shown.id} of {trial.arm.task_name}"
                yield f"{place}{slot}: {sample}: {trial.error.splitlines()[0]}"
            elif not trial.state.has_result and not trial.error:
                yield f"{place}: {describe_missing_answer(trial.arm.stages)}"

    def ask_once(self, faults: dict[str, None]) -> Iterator[str]:
        """Send each model the first request of a run, and describe its reply. A model that cannot
        be asked is added to `faults`."""
        asked = set[str]()
        for trial in self.trials:
            for call, request in zip(trial.calls, trial.requests, strict=False):
                model = request.model
                lacks = getattr(model, "missing", str)() or not getattr(model, "remote", False)
                if lacks or model.identity in asked:
                    continue
                asked.add(model.identity)
                # directly rather than in a batch, which may take hours
                name, chat = get_model_name(model), getattr(model, "chat", model)
                try:
                    reply = chat(call.messages, call.draw, call.options)
                except ModelError as exc:
                    faults[f"model {name!r}: {exc}"] = None
                    yield f"asked {name} once: {exc}"
                    continue
                finally:
                    close_model(chat)
                used, prices = reply.usage, getattr(chat, "prices", None)
                cost = f", cost {format_number(estimate_price(used, prices), 2)}" if prices else ""
                yield (
                    f"asked {name} once: {shorten_text(reply.text, 60)!r} after {reply.seconds:.1f}"
                    f" s, {used.tokens_in:,} tokens in, {used.tokens_out:,} out{cost}"
                )
                expected = request.word_tokens + request.picture_tokens
                times = used.tokens_in / expected if expected else 1.0
                if used.tokens_in and not 0.9 < times < 1.1:
                    yield (
                        f"  the estimate was {expected:,} tokens in, so expect about {times:,.1f}"
                        " times the input tokens and cost given above"
                    )

    def describe_arms(self) -> Iterator[str]:
        """Describe the effect of every arm's stages on its sample, with warnings."""
        for trial in self.trials:
            label, task = self.names[trial.arm.id]
            yield f"{label} on {task}, sample {trial.item.sample.id}"
            yield from format_arm(self._make_shown_arm(trial))
            yield from (f"  warning: {warning}" for warning in dict.fromkeys(_find_warnings(trial)))

    def describe_first_arm(self) -> Iterator[str]:
        """Describe the first arm's request, then failures and warnings of all arms, each once."""
        first = self.trials[0]
        sample = first.item.sample.id
        yield f"first arm: {first.arm.contestant} on {first.arm.task_name}, sample {sample}:"
        yield from format_outcome(self._make_shown_arm(first))
        arms = defaultdict[str, list[str]](list)
        for trial in self.trials:
            label, task = self.names[trial.arm.id]
            for warning in dict.fromkeys(_find_warnings(trial)):
                arms[f"warning: {warning}"].append(label)
            if trial.error and trial is not first:
                arms[f"FAILED: {trial.error.splitlines()[0]}"].append(f"{label} on {task}")
        for warning, names in arms.items():
            more = f" and {format_count(len(names) - 1, 'more arm')}" if len(names) > 1 else ""
            yield f"  {warning} ({names[0]}{more})"

    def _make_shown_arm(self, trial: DryRun) -> ShownArm:
        arm, (label, _) = trial.arm, self.names[trial.arm.id]
        system = getattr(arm.model, "system", "")
        return ShownArm(label, trial.state, trial.error, stages=arm.stages, system=system)

    def write_pages(self, out: Path) -> Iterator[str]:
        """Write a page for each task, named after its sample, and also after the task if two
        samples share a name."""
        out.mkdir(parents=True, exist_ok=True)
        pages = defaultdict[str, list[DryRun]](list)
        for trial in self.trials:
            pages[trial.arm.task_id].append(trial)
        ids = Counter(trials[0].item.sample.id for trials in pages.values())
        for trials in pages.values():
            item, (_, task) = trials[0].item, self.names[trials[0].arm.id]
            sample = item.sample
            name = sample.id if ids[sample.id] == 1 else f"{sample.id} {task}"
            path = out / f"{make_file_names([name])[name]}.html"
            shown = [self._make_shown_arm(trial) for trial in trials]
            write_file(path, render_sample(sample.id, sample.question, item.answer, shown))
            yield f"views: {path}"

    def describe_requests(self, detailed: bool) -> Iterator[str]:
        """Describe the requests of a run and of each contestant; `detailed` adds a line per
        contestant and the basis of the estimate."""
        sizes = {task_id: count_items(task) for task_id, task in self.tasks.items()}
        samples = {task_id: min(size, self.limit or size) for task_id, size in sizes.items()}
        whole = count_requests(self.trials, samples)
        if not whole.request_count:
            yield "a run calls no model"
            return
        by_name = defaultdict[str, list[DryRun]](list)
        for trial in self.trials:
            by_name[trial.arm.contestant].append(trial)
        amounts = {name: count_requests(trials, samples) for name, trials in by_name.items()}
        silent = [name for name, amount in amounts.items() if not amount.request_count]
        asking = {name: amount for name, amount in amounts.items() if amount.request_count}
        if detailed:
            yield "a run sends at most (cached and recorded replies are not requested again):"
            yield from (f"  {name}: {amount}" for name, amount in asking.items())
            if silent:
                yield f"  {', '.join(silent)}: no requests"
            yield f"  total: {whole}"
            yield "  estimated from the first sample of each task, with (A) as every reply"
            yield (
                f"  {CHARACTERS_PER_TOKEN} characters of text count as a token; a request"
                " that several arms share counts once"
            )
        else:
            yield f"a run sends at most {whole}"
            counts = [f"{name} {amount.request_count:,}" for name, amount in asking.items()]
            silence = f"; {', '.join(silent)} none" if silent else ""
            yield f"  requests: {', '.join(counts)}{silence}"
        for line in (*list_prices(self.plan.points), *self._describe_estimates(samples)):
            yield f"  {line}"

    def _describe_estimates(self, samples: Mapping[str, int]) -> Iterator[str]:
        """Yield a line for each count of requests or tokens that is only an estimate."""
        rough, failed, most = set[str](), dict[str, None](), Counter[str]()
        recorded = dict[str, None]()
        for trial in self.trials:
            arm = trial.arm
            sent = [r for r in trial.requests if not isinstance(r.model, Replay)]
            recorded |= {arm.contestant: None} if len(sent) < len(trial.requests) else {}
            pictured = {get_model_name(request.model) for request in sent if request.picture_count}
            rough |= {name for name in pictured if not find_image_rule(name).published}
            failed |= {arm.contestant: None} if trial.error else {}
            for agent in find_settings(arm.stages, Agent):
                calls = 1 + agent.bounds.steps * (2 if agent.probe else 1)
                most[arm.contestant] += calls * samples[arm.task_id] * arm.draws
        if rough:
            yield (
                f"picture tokens of {', '.join(sorted(rough))} are a guess: one per 28 x 28 pixels"
            )
        if recorded:
            yield f"{', '.join(recorded)}: recorded replies, so nothing is sent"
        for name in failed:
            yield f"{name}: a stage failed, so its later requests are not counted"
        for name, calls in most.items():
            yield (
                f"{name}: an agent, counted without looks (tool calls); its bounds allow up to"
                f" {calls:,} requests"
            )

    def describe_sample_faults(self) -> Iterator[str]:
        """Describe the samples that would fail, by task and kind of fault, without decoding
        images."""
        names = {arm.task_id: arm.task_name for arm in self.plan.points}
        for task_id, found in self.found.items():
            yield from (f"{names[task_id]}: {sentence}" for sentence in found.sentences())

    def describe_left_out(self) -> Iterator[str]:
        """Describe the rows and files that a run leaves out, with reasons."""
        names = {arm.task_id: arm.task_name for arm in self.plan.points}
        for task_id, task in self.tasks.items():
            if sentences := task.facts.left_out:
                yield f"warning: {names[task_id]}: {'; '.join(sentences)}"

    def warn_of_marks(self) -> Iterator[str]:
        """Warn of points that look like fractions of the image size, and report if not every image
        was checked."""
        for task_id, found in self.found.items():
            task = self.tasks[task_id]
            is_folder = isinstance(task, Folder)
            if is_folder and found.points and all(max(p.x, p.y) <= 1 for p in found.points):
                yield (
                    "warning: no coordinate of a point exceeds 1, but marks are in pixels; are"
                    " these fractions of the image size?"
                )
            if not found.is_complete and not is_folder:
                yield (
                    f"checked the images of {format_count(found.checked_count, 'sample')}; --all"
                    " opens those of every sample"
                )

    def check_samples(self, faults: dict[str, None]) -> Iterator[str]:
        """Describe images that cannot be opened, invalid ground truth and duplicate ids, and add
        their number to `faults`."""
        opened, found = 0, 0
        names = {arm.task_id: arm.task_name for arm in self.plan.points}
        for task_id, task in self.tasks.items():
            items, seen = islice(check_items(task), self.limit), set[str]()
            with ThreadPoolExecutor() as pool:
                while some := list(islice(items, SAMPLES_AT_ONCE)):
                    for item, (images, wrong) in zip(some, pool.map(open_item, some), strict=True):
                        if item.sample.id in seen:
                            wrong.append("the id occurs twice; ids must be unique")
                        seen.add(item.sample.id)
                        opened, found = opened + images, found + len(wrong)
                        place = f"{names[task_id]}, sample {item.sample.id}"
                        yield from (f"{place}: {fault}" for fault in wrong)
        shown = format_count(opened, "image")
        if found:
            faults[f"{format_count(found, 'fault')} in the samples and their {shown}"] = None
        else:
            yield f"{shown} opened, no faults"

    def warn_of_unchanged(self) -> Iterator[str]:
        """Warn of each slot that changed no request, and report how many samples were tried.

        Arms whose first request differs from every other arm's are not tried on further samples.
        """
        firsts = [(trial.arm, _make_dry_record(trial)) for trial in self.trials]
        records = {arm.id: [first] for arm, first in firsts}
        sent = Counter((arm.task_id, first.request) for arm, first in firsts)
        doubtful = defaultdict[str, list[Arm]](list)
        for arm, first in firsts:
            if sent[arm.task_id, first.request] > 1 or first.kept_notes:
                doubtful[arm.task_id].append(arm)
        begun = time.monotonic()
        for task_id, alike in doubtful.items():
            for item in islice(check_items(self.tasks[task_id]), 1, MAX_TRIED_SAMPLES):
                if time.monotonic() - begun > MAX_TRIAL_SECONDS:
                    break
                for arm in alike:
                    records[arm.id].append(_make_dry_record(try_arm(arm, item)))
        sent_by_arm = []
        for trial, row in zip(self.trials, self.rows, strict=True):
            rival, slots = find_baseline(row, self.rows), list(trial.arm.stages)
            asking = (slots.index(entry.slot) for entry in trial.state.trace if entry.calls)
            # stages from the first model call on depend on scripted replies
            made_up = slots[min(asking, default=0) :]
            requests = pack_requests(record.request for record in records[row.id])
            kept = [record.kept_notes for record in records[row.id]]
            asked, against = (*self.names[row.id], requests, kept), rival.id if rival else ""
            sent_by_arm.append(ArmRequests(row, *asked, against, made_up))
        if warnings := describe_unchanged(sent_by_arm):
            most = max(map(len, records.values()))
            yield f"tried on at most the first {format_count(most, 'sample')} of each task:"
            yield from (f"  warning: {line}" for line in warnings)

    def warn_of_confused_labels(self) -> Iterator[str]:
        """Warn of drawn labels that are also letters of choices about something else. Generated
        questions are skipped, because their letters are the benchmark's own."""
        confused: dict[str, dict[str, None]] = {}
        for trial in self.trials:
            sample, task = trial.state.sample, trial.arm.task
            choices = sample.lettered
            for stage in trial.arm.stages.values():
                if isinstance(task, GeneratedTask) or not hasattr(stage, "list_labels"):
                    continue
                for label in stage.list_labels(sample.marks):
                    choice = choices.get(label)
                    if choice is not None and not re.search(rf"\b{label}\b", str(choice)):
                        shown = "a picture" if isinstance(choice, Picture) else repr(choice)
                        warning = f"{label} is drawn, but choice ({label}) is {shown}"
                        confused.setdefault(trial.arm.task_name, {})[warning] = None
        if confused:
            examples = "; ".join(next(iter(confused.values())))
            yield (
                "warning: drawn labels are also letters of choices about something else, on"
                f" {', '.join(confused)}: {examples}; `label: {{text: ...}}` draws other labels,"
                " `label: null` draws none"
            )


def _find_warnings(trial: DryRun) -> Iterator[str]:
    """Yield warnings of a trial: stages after the last call that change views or prompt, detail
    lost from views, a reader that finds no letter in the scripted reply, and draws at temperature
    0."""
    arm, trace, letters = trial.arm, trial.state.trace, trial.state.sample.letters
    if field := re.search(r"(?<!\{)\{(question|choices|options)\}", trial.state.prompt):
        yield f"the prompt contains {field[0]} literally; a template needs {{{{ {field[1]} }}}}"
    is_asked = trial.calls and trial.state.answer is None and not trial.error
    if is_asked and arm.read != Robust():  # the default reads every letter
        try:
            recorder = RecordingModel(StandIn(arm.model), trial.item.sample.id)
            read = run_stage("read", arm.read, trial.state, recorder).answer
        except StageFailed as exc:
            yield f"the reader fails on the reply '(A)': {describe_failure(exc.__cause__ or exc)}"
        else:
            if letters and read is not None and read.strip() not in letters:
                yield (
                    f"the reader turns the reply '(A)' into {read!r}, which is not one of"
                    f" {', '.join(letters)}: such answers are unreadable"
                )
    asked = [number for number, entry in enumerate(trace) if entry.calls]
    for before, after in pairwise(trace[asked[-1] :] if asked else ()):
        if (before.views, before.prompt) != (after.views, after.prompt):
            yield (
                f"stage {after.slot!r} changes the views or the prompt after the last call, so no"
                " model sees the change"
            )
    yield from trial.find_losses()
    yield from trial.find_unbounded_stages()
    if arm.draws > 1 and (spec(arm.model) or {}).get("temperature") == 0:
        yield f"{arm.draws} draws at temperature 0 are separate calls that will mostly agree"


def _make_dry_record(trial: DryRun) -> Record:
    sample, blobs = trial.item.sample, HashOnlyBlobs(Path())
    return make_record(trial.arm, sample, sample.sha, trial.state, blobs, trial.error)
