"""The commands that begin with a configuration, or with nothing yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Exit, Option

from looktwice.eval.commands.options import (
    NONE,
    Allowed,
    ConfigPath,
    Limit,
    OnlyCached,
    OutCache,
    OutFolder,
    Overrides,
    Plugins,
    RunWorkers,
    TableKind,
    complete_config,
    complete_name,
    print_table,
    print_text_table,
    refuse,
    say,
)
from looktwice.pipelines.runtime.signals import exit_code

if TYPE_CHECKING:
    from looktwice.eval.runs import Study
    from looktwice.eval.runs.predict import RunSummary


def check(
    config: ConfigPath,
    overrides: Overrides = NONE,
    plugin: Plugins = NONE,
    allow: Allowed = NONE,
    out: Annotated[
        Path | None, Option(help="Write a page per task into this folder: views, words, replies.")
    ] = None,
    limit: Annotated[
        int | None, Option(min=1, help="Count a run of so many samples of each task.")
    ] = None,
    whole: Annotated[
        bool, Option("--all", help="Describe every arm, and open every image of every task.")
    ] = False,
    ask: Annotated[
        bool, Option("--ask", help="Send each model one request, and say what it cost.")
    ] = False,
) -> None:
    """Print all errors, then try one sample of each task.

    The stages run with a scripted model: without --ask no model is called. It says what a run would
    ask and cost.
    """
    from looktwice.eval.runs.check import check

    for line in check(load_study(config, overrides, plugin, allow), out, limit, whole, ask):
        say(line)


def load_study(config: Path, *how: Sequence[str]) -> Any:
    """The plan of a configuration; names the contestants that it leaves out. Raises RunError where
    none is left."""
    from looktwice.pipelines.config.plan import load_plan

    plan = load_plan(config, *how)
    _say_left_out(plan)
    places = [override.partition("=")[0] for override in (how[0] if how else ())]
    for place in places:
        if place.split(".")[0] in ("model", "models") and not (plan.models or plan.left_out):
            say(f"{place}: no contestant of this study asks a model, so it changes nothing")
    if not plan.points:
        refuse("no contestant is left to run: get what the lines above name, or set their paths")
    return plan


def _say_left_out(plan: Any) -> None:
    for why in dict.fromkeys(plan.left_out.values()):
        names = [name for name, reason in plan.left_out.items() if reason == why]
        say(f"left out: {', '.join(names)} ({why})")


Again = Annotated[
    Literal["failed", "nothing", "all"],
    Option(help="What an earlier run has that is asked again; all: it is renamed."),
]
# What only clusters and schedulers need.
Shard = Annotated[str, Option(help="i/n: run the i-th of n parts of the samples.", hidden=True)]
MaxRequests = Annotated[int | None, Option(min=1, help="Stop after so many requests.", hidden=True)]
CacheSize = Annotated[
    str | None,
    Option(
        metavar="SIZE",
        help="Prune the reply cache at the end where it is larger than 20GB, say.",
        hidden=True,
    ),
]
OnRay = Annotated[
    str, Option(help="ray, or ray://HOST:PORT: by tasks of Ray, here or on a cluster.", hidden=True)
]
SharedGPUs = Annotated[
    float,
    Option(min=0, help="The share of a GPU of each actor that holds networks on Ray.", hidden=True),
]
ProgressLog = Annotated[
    Literal["words", "json"],
    Option(help="How progress is told on stderr: in words, or as lines of JSON.", hidden=True),
]


def run(
    config: ConfigPath,
    overrides: Overrides = NONE,
    limit: Limit = None,
    workers: RunWorkers = None,
    out: OutFolder = Path("runs"),
    plugin: Plugins = NONE,
    allow: Allowed = NONE,
    shard: Shard = "1/1",
    again: Again = "failed",
    cache: OutCache = None,
    budget: Annotated[
        float | None,
        Option(min=0, help="Stop once the run has cost so much, by the `prices` of its models."),
    ] = None,
    max_requests: MaxRequests = None,
    only_cached: OnlyCached = False,
    table: TableKind = "short",
    cache_size: CacheSize = None,
    on: OnRay = "",
    gpus: SharedGPUs = 0.0,
    log: ProgressLog = "words",
) -> None:
    """Run a configuration and write its report.

    A run that was stopped is continued. With `choose:` in the study it is a race, a staircase or a
    discovery.
    What only clusters and schedulers need is listed in docs/reference/commands.md.
    """
    from rich.console import Console

    from looktwice.eval.adaptive.discovery import make_steering
    from looktwice.eval.runs import RunOptions, Study
    from looktwice.eval.runs.predict import default_workers
    from looktwice.eval.runs.reply_cache import keep_within, parse_size

    plan = load_study(config, overrides, plugin, allow)
    part, kept = _parse_shard(shard), again == "nothing"
    threads = workers or default_workers(plan.models)
    options = RunOptions(threads, limit, part, kept, budget, max_requests)
    most = parse_size(cache_size) if cache_size else None
    steering = make_steering(plan.config)
    typed = any(getattr(model, "types", False) for model in plan.models)
    # no bar where somebody types
    console = Console(stderr=True, force_terminal=False if typed else None)
    fresh, as_json = again == "all", log == "json"
    about = plan, out, options, cache, fresh, only_cached, console, on, gpus, as_json, steering
    study = Study(*about, may_fork=True)
    outcome = study()
    _print_results(study, outcome, allow, table)
    for line in outcome.sentences:
        say(line)
    for line in keep_within(cache or out / ".cache", out, most):
        say(line)
    if outcome.why or outcome.failed or outcome.stopped:
        raise Exit(exit_code(outcome.signal) if outcome.stopped and not outcome.why else 1)


def _parse_shard(text: str) -> tuple[int, int]:
    """The i and n of `i/n`. Raises typer.BadParameter."""
    number, _, shards = text.partition("/")
    if not (number.isdecimal() and shards.isdecimal() and 1 <= int(number) <= int(shards)):
        raise BadParameter(f"--shard {text}: expected i/n with 1 <= i <= n, such as 2/8")
    return int(number), int(shards)


def _print_results(study: Study, outcome: RunSummary, allow: list[str], kind: str) -> None:
    """Finish a discovery; print what a run that has answers found and its races, and write its
    report."""
    from looktwice.eval.adaptive.discovery import Discovery
    from looktwice.eval.adaptive.race import NOTE, race_table, save_races
    from looktwice.eval.adaptive.runs import Races
    from looktwice.eval.commands.winner import finish_discovery
    from looktwice.eval.display.table import score_table
    from looktwice.eval.page.conversations import sample_images
    from looktwice.eval.report import write_report

    plan, run, steering = study.plan, outcome.folder, study.steering
    if isinstance(steering, Discovery) and not outcome.stopped:
        finish_discovery(study, allow)
    if not (outcome.written or outcome.kept or (steering and steering.answers)):
        return
    races = save_races(run, steering.results) if isinstance(steering, Races) else None
    scored = score_table([run], plan=plan)
    print_table(scored, kind)
    images = sample_images({arm.task_id: arm.task for arm in plan.points})
    page = write_report(scored, run, images, again=False)
    say(f"report: {page}; with every picture: looktwice view")
    if isinstance(steering, Races):
        most = 8 * isinstance(steering, Discovery)
        print_text_table(race_table(steering.results, most), "the race", NOTE)
        say(f"race: {races}")
    _say_left_out(plan)


def discover(
    config: ConfigPath,
    overrides: Overrides = NONE,
    budget: Annotated[
        int | None,
        Option(min=1, help="The most answers, of all arms together (default: 30 % of the grid)."),
    ] = None,
    cost: Annotated[
        float | None,
        Option(min=0, help="Stop once it has cost so much, by the `prices` of the models."),
    ] = None,
    limit: Limit = None,
    workers: RunWorkers = None,
    out: OutFolder = Path("runs"),
    plugin: Plugins = NONE,
    allow: Allowed = NONE,
    only_cached: OnlyCached = False,
) -> None:
    """Find the best arm of a sweep for a part of its answers.

    What wins is confirmed on samples that did not choose it, tried under other marker styles, and
    written as a study. The same command goes on where it was stopped.
    """
    chosen = ["choose.by=discovery", *([f"choose.budget={budget}"] if budget else [])]
    run(
        config,
        [*overrides, *chosen],
        limit,
        workers,
        out,
        plugin,
        allow,
        budget=cost,
        only_cached=only_cached,
    )


def allow(
    path: Annotated[
        Path | None,
        Argument(metavar="[PATH]", help="A study, a run folder, or a folder of questions."),
    ] = None,
    overrides: Overrides = NONE,
    plugin: Plugins = NONE,
    listed: Annotated[bool, Option("--list", help="List what is allowed.")] = False,
    forgotten: Annotated[bool, Option("--forget", help="Take back what was allowed.")] = False,
) -> None:
    """Let a study that you trust read the paths it names.

    It is remembered until the study, or a file that it includes, changes; a copy elsewhere is
    another study. So are a run folder and a folder of questions.
    """
    from looktwice.pipelines.config.paths import allowances, find_config, forget

    if path is not None and forgotten:
        was_allowed = forget(find_config(path))
        say(f"{path} {'is allowed nothing any more' if was_allowed else 'was allowed nothing'}")
    elif path is not None:
        _allow(path, overrides, plugin)
    for allowance in allowances() if listed or path is None else ():
        changed = "" if not allowance.changed else ": changed since, so it may read none of these"
        say(f"{allowance.path}{changed}")
        for place in allowance.reads:
            say(f"  {place}")


def _allow(path: Path, overrides: Sequence[str], plugins: Sequence[str]) -> None:
    """Remember what lies at `path` and what it names. Raises ConfigError for other faults,
    RunError, TaskError."""
    from looktwice.eval.runs.replay import RecordedRun
    from looktwice.eval.scoring.score import ScoringTools
    from looktwice.eval.tasks.own_questions import Folder
    from looktwice.pipelines.config.load import load
    from looktwice.pipelines.config.paths import allow, find_config, note_outside, shipped
    from looktwice.pipelines.config.plan import load_plan

    files = list[Path]()
    with note_outside() as reads:
        if (path / "points.yaml").is_file():
            files = [path / "points.yaml"]
            run = RecordedRun(path, plugins)
            tools = ScoringTools(run.folder, plugins=tuple(plugins))
            for point in run.folder.points.values():
                run.stages(point)
                run.task(point)
                tools.record_scorer(point)
        elif path.is_dir():
            # the folders in which pictures of the questions lie, and where links in it lead
            if (path / "samples.jsonl").is_file():
                files = [path / "samples.jsonl"]
                len(Folder(path))  # reads every line
            for entry in path.rglob("*"):
                if entry.is_symlink() and entry.exists():
                    reads.append(entry.resolve())
            reads[:] = {place if place.is_dir() else place.parent for place in reads}
        else:
            path = find_config(path)
            load(path, files=files)
            load_plan(path, overrides, plugins)
    if not reads:
        say(f"{path} names nothing outside of its own folder, so there is nothing to allow")
        return
    allow(path, [file for file in files if file not in shipped().values()], reads)
    say(f"{path} may read, until it or what it includes changes:")
    for place in sorted(set(reads)):
        say(f"  {place}")
    say(f"looktwice allow --forget {path} takes it back")


def make(
    config: ConfigPath,
    overrides: Overrides = NONE,
    out: Annotated[Path, Option(help="The folder of the new question sets.")] = Path("made"),
    split: Annotated[str, Option(help="The split, which begins the questions' names.")] = "val",
    plugin: Plugins = NONE,
    allow: Allowed = NONE,
) -> None:
    """Make questions from your own files.

    Each task is saved as a folder and as a parquet file like BLINK's.
    """
    from looktwice.eval.make.command import make_questions

    for line in make_questions(config, overrides, plugin, out, split, allow):
        say(line)


def list_names(
    kind: Annotated[
        str,
        Argument(
            metavar="[KIND]",
            help=(
                "stages, specialists, tools, tasks, readers, models or configs; or a class, such as"
                " Circles or State."
            ),
            autocompletion=complete_name,
        ),
    ] = "",
    plugin: Plugins = NONE,
) -> None:
    """List what a configuration may name, a line each.

    Without KIND it says how many there are. Of a class it tells the settings, with their types and
    defaults.
    """
    from looktwice.eval.listing import SAYS, list_class, list_kind, list_kinds

    listed = list_kind if kind in SAYS else list_class
    for line in listed(kind, plugin) if kind else list_kinds(plugin):
        say(line)


def init(
    config: Annotated[
        str,
        Argument(
            metavar="[CONFIG]", help="A shipped configuration.", autocompletion=complete_config
        ),
    ] = "study",
    out: Annotated[Path | None, Option(help="The file to write (default: CONFIG.yaml).")] = None,
) -> None:
    """Write a commented study to begin with.

    It is a copy of a shipped configuration, which `looktwice list configs` names.
    """
    from looktwice.eval.listing import copy_config

    written = copy_config(config, out)
    say(f"wrote {written}; next: looktwice check {written}")
