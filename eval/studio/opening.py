"""The first draft of a studio: of a picture, of a sample of a run with a contestant's stages, or of
a study and its first question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from looktwice.eval.page.of_runs import RunPage
from looktwice.eval.records.records import RunError, RunFolder
from looktwice.eval.runs.show import ShownRun
from looktwice.eval.studio.desk import Desk
from looktwice.eval.studio.draft import POCKET, Draft, Node, Slot
from looktwice.eval.tasks.base import checked_items
from looktwice.pipelines.config.build import build
from looktwice.pipelines.config.classes import ConfigError, did_you_mean
from looktwice.pipelines.config.load import parse_override
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.config.plan import load_plan
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.sample import Item

FIRST = (
    Slot("mark", {"use": "prompting.markers.Circles"}),
    Slot("ask", {"use": "prompting.turns.Ask"}),
)
STUDIES = (".yaml", ".yml", "")


def open_draft(
    desk: Desk, what: Sequence[Path], models: Sequence[str] = (), allow: Sequence[str] = ()
) -> Draft:
    """The draft to begin with, whose pictures the desk takes, with those whom it may ask. Raises
    ConfigError, RunError, TaskError, PictureError."""
    for text in models:
        _, node = parse_override(f"model={text}")
        if not isinstance(node, dict):
            example = "'{use: pipelines.models.Pocket}'"
            raise ConfigError([f"--model {text}: write a node, such as {example}"])
        desk.admit(build(node, place="--model"))
    start = Draft(stages=FIRST)
    if not what:
        return start
    first, *more = what
    if more and not first.is_file():
        return of_run(desk, first, *map(str, more[:2]))
    if first.is_dir():
        ids = [row.id for row in RunFolder(first).samples.values()]
        raise RunError(f"{first}: name one of its {len(ids)} samples behind it, such as {ids[0]}")
    if not more and first.suffix in STUDIES:
        return of_study(desk, first, allow)
    for picture in what:
        if not picture.is_file():
            raise RunError(f"{picture}: there is no such picture, run or study here")
    images = tuple(desk.take(read_file(picture)) for picture in what)
    return replace(start, images=images)


def of_study(desk: Desk, study: Path, allow: Sequence[str] = ()) -> Draft:
    """The first question of a study, with the stages and the model of its first contestant. The
    models of all of them may be asked. Raises ConfigError, RunError, TaskError, PictureError."""
    plan = load_plan(study, (), desk.plugins, allow)
    if not plan.points:
        raise RunError(f"{study}: no contestant is left; {'; '.join(plan.left_out.values())}")
    arm, names = plan.points[0], {id(model): desk.admit(model) for model in plan.models}
    item = next(checked_items(arm.task), None)
    if item is None:
        raise RunError(f"{study}: its task {arm.task_name!r} has no question")
    model = names.get(id(arm.model), POCKET)
    return Draft.of(item, arm.stages, desk.keep, model=model, draws=arm.draws, seed=arm.seed)


def of_page(desk: Desk, page: RunPage, asked: Mapping[str, str]) -> Draft:
    """The sample and the contestant of a page, by the numbers `n` and `who`. Raises RunError,
    ConfigError, PictureError."""
    row = page.rows[int(asked["n"])]
    number, name = [*page.contestants][int(asked["who"])]
    run = page.runs[number]
    return of_run(desk, run.folder.path, row.id, name.removesuffix(f" ({run.name})"), row.task)


def of_run(desk: Desk, run: Path, sample: str, contestant: str = "", task: str = "") -> Draft:
    """A sample of a run, with the stages of a contestant, the first one without a name. `task` is
    the id of its task where several have a sample of this name. Raises RunError, ConfigError,
    PictureError."""
    shown = ShownRun(run, desk.plugins)
    row, *_ = shown.rows(sample, task)
    points = shown.points(row)
    name = contestant or next(iter(points))
    if name not in points:
        near = did_you_mean(name, points)
        raise RunError(f"{run} has no contestant {name!r}{near}; there are {', '.join(points)}")
    point = points[name]
    item = Item(shown.sample(point, row), row.answer)
    asked: Node = {"seed": point.seed, "draws": point.draws}
    if node := point.spec.get("model"):
        asked["model"] = desk.admit(build(node, Scope.of_records(run), "model"))
    return Draft.of(item, shown.stages(point), desk.keep, **asked)
