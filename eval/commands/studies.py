"""The commands that start from a configuration, or that list and copy configurations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Exit, Option

from looktwice.eval.commands.options import (
    NO_VALUES,
    ConfigPath,
    OnlyCachedReplies,
    OutCache,
    OutFolder,
    Overrides,
    Plugins,
    RunWorkers,
    SampleLimit,
    TableKind,
    complete_config,
    complete_name,
    print_table,
    refuse,
    say,
)
from looktwice.pipelines.extensions import find_extension
from looktwice.pipelines.runtime.process import get_exit_code

if TYPE_CHECKING:
    from looktwice.eval.runs import Study
    from looktwice.eval.runs.options import RunSummary


def check(
    config: ConfigPath,
    overrides: Overrides = NO_VALUES,
    plugin: Plugins = NO_VALUES,
    out: Annotated[
        Path | None, Option(help="Write a page per task into this folder: views, prompts, replies.")
    ] = None,
    limit: Annotated[
        int | None, Option(min=1, help="Estimate a run of this many samples of each task.")
    ] = None,
    whole: Annotated[
        bool, Option("--all", help="Describe every arm, and open every image of every task.")
    ] = False,
    ask: Annotated[
        bool, Option("--ask", help="Send each model one request, and show its cost.")
    ] = False,
) -> None:
    """Print all errors, then try one sample of each task.

    The stages run with a scripted model; only --ask calls a model. It also estimates the requests
    and the cost of a run.
    """
    from looktwice.eval.runs.check import check

    for line in check(load_study(config, overrides, plugin), out, limit, whole, ask):
        say(line)


def load_study(config: Path, *options: Sequence[str]) -> Any:
    """Load the plan of a configuration, with the overrides and plugins in `options`, and print the
    contestants that the plan leaves out. Raises RunError if none remains."""
    from looktwice.pipelines.config.plan import load_plan

    plan = load_plan(config, *options)
    _print_left_out(plan)
    places = [override.partition("=")[0] for override in (options[0] if options else ())]
    for place in places:
        if place.split(".")[0] in ("model", "models") and not (plan.models or plan.left_out):
            say(
                f"{place}: no contestant of this study calls a model, so this setting has no effect"
            )
    if not plan.points:
        advice = "install or download what the lines above name, or set the path to it"
        given = dict(zip(places, options[0], strict=True)) if places else {}
        if data := given.get("data"):
            default = _describe_default_data(config)
            advice = f"{data} must name the folder that holds the files above{default}"
        refuse(f"no contestant is left to run: {advice}")
    return plan


def _describe_default_data(config: Path) -> str:
    """Return the data folders that a configuration names itself, as the end of a sentence."""
    from looktwice.pipelines.config.load import load
    from looktwice.pipelines.config.shipped import find_config

    node = load(find_config(config))
    tasks = [node.get("task"), *(node.get("tasks") or {}).values()]
    paths = [str(task.get("path") or "") for task in tasks if isinstance(task, dict)]
    named = [path for path in dict.fromkeys(paths) if path and not path.startswith("${")]
    return f" (in the study: {', '.join(named)})" if named else ""


def _print_left_out(plan: Any) -> None:
    if plan.left_out:
        from looktwice.eval.analysis.finding import describe_left_out

        for line in describe_left_out(plan.left_out):
            say(f"left out: {line}")


RedoneResults = Annotated[
    Literal["failed", "nothing", "all"],
    Option(help="Which earlier results to redo: failed, nothing, or all (the old run is renamed)."),
]
# Options for clusters and schedulers only.
Shard = Annotated[
    str, Option(help="Run only one part of the samples: i/n is part i of n.", hidden=True)
]
MaxRequests = Annotated[
    int | None, Option(min=1, help="Stop after this many requests.", hidden=True)
]
CacheSize = Annotated[
    str | None,
    Option(
        metavar="SIZE",
        help="Prune the reply cache at the end if it is larger than a size such as 20GB.",
        hidden=True,
    ),
]
ClusterAddress = Annotated[
    str,
    Option(help="Run on Ray: `ray` for this machine, ray://HOST:PORT for a cluster.", hidden=True),
]
GPUShare = Annotated[
    float,
    Option(min=0, help="On Ray: the share of a GPU for each actor with networks.", hidden=True),
]
ProgressFormat = Annotated[
    Literal["words", "json"],
    Option(help="Progress on stderr as text (words) or as lines of JSON (json).", hidden=True),
]


def run(
    config: ConfigPath,
    overrides: Overrides = NO_VALUES,
    limit: SampleLimit = None,
    workers: RunWorkers = None,
    out: OutFolder = Path("runs"),
    plugin: Plugins = NO_VALUES,
    shard: Shard = "1/1",
    again: RedoneResults = "failed",
    cache: OutCache = None,
    budget: Annotated[
        float | None,
        Option(min=0, help="Stop once the run reaches this cost, by the `prices` of its models."),
    ] = None,
    max_requests: MaxRequests = None,
    only_cached: OnlyCachedReplies = False,
    table: TableKind = "short",
    cache_size: CacheSize = None,
    on: ClusterAddress = "",
    gpus: GPUShare = 0.0,
    log: ProgressFormat = "words",
) -> None:
    """Run a configuration and write its report.

    A stopped run resumes. `choose:` in the study makes it a race, a staircase or a discovery.
    Options for clusters and schedulers are listed in docs/reference/commands.md.
    """
    from rich.console import Console

    from looktwice.eval.runs import RunOptions, Study
    from looktwice.eval.runs.options import count_default_workers

    plan = load_study(config, overrides, plugin)
    part, kept = _parse_shard(shard), again == "nothing"
    threads = workers or count_default_workers(plan.models)
    options = RunOptions(threads, limit, part, kept, budget, max_requests)
    max_size = None
    if cache_size:
        from looktwice.eval.recorded.reply_cache import limit_cache, parse_size

        max_size = parse_size(cache_size)
    executor = open_executor(on, gpus) if on else None
    typed = any(getattr(model, "interactive", False) for model in plan.models)
    # no progress bar if a user types replies
    console = Console(stderr=True, force_terminal=False if typed else None)
    fresh, as_json = again == "all", log == "json"
    about = plan, out, options, cache, fresh, only_cached, console, as_json
    study = Study(*about, executor=executor, may_fork=True)
    outcome = study()
    for line in outcome.lines:
        say(line)
    _print_results(study, outcome, table)
    for line in outcome.sentences:
        say(line)
    for line in limit_cache(cache or out / ".cache", out, max_size) if cache_size else ():
        say(line)
    if outcome.why or outcome.failed_count or outcome.is_stopped:
        raise Exit(get_exit_code(outcome.signal) if outcome.is_stopped and not outcome.why else 1)


def _parse_shard(text: str) -> tuple[int, int]:
    """Return the i and n of `i/n`. Raises typer.BadParameter."""
    number, _, shards = text.partition("/")
    if not (number.isdecimal() and shards.isdecimal() and 1 <= int(number) <= int(shards)):
        raise BadParameter(f"--shard {text}: expected i/n with 1 <= i <= n, such as 2/8")
    return int(number), int(shards)


def open_executor(on: str, gpus: float) -> Any:
    """Return the executor for the option --on, `ray` or `ray://HOST:PORT`, which replaces this
    machine's threads. Raises RunError."""
    name = on.partition(":")[0]
    extension = find_extension("executors", name)
    if extension is None:
        refuse(f"--on {on}: type `ray` for this machine, or `ray://HOST:10001` for a cluster")
    return extension.open()(on, gpus)


def _print_results(study: Study, outcome: RunSummary, kind: str) -> None:
    """Print the findings of a run that has answers, and write its report."""
    from looktwice.eval.display.table import score_table
    from looktwice.eval.page.conversations import make_image_loader
    from looktwice.eval.report import write_report

    plan, run = study.plan, outcome.folder
    if not (outcome.written_count or outcome.kept_count):
        return
    scored = score_table([run], plan=plan)
    print_table(scored, kind)
    images = make_image_loader({arm.task_id: arm.task for arm in plan.points})
    page = write_report(scored, run, images, again=False)
    say(f"report: {page}; with every picture: looktwice view")


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
    whole: Annotated[bool, Option("--all", help="List all configurations.")] = False,
    plugin: Plugins = NO_VALUES,
) -> None:
    """List configurations to start with, and what a configuration may use.

    Without KIND it lists ten configurations; for a class, it lists the settings with their types
    and defaults.
    """
    from looktwice.eval.listing import KIND_DESCRIPTIONS, list_class, list_kind, list_starters

    kind = kind or ("configs" if whole else "")
    listed = list_kind if kind in KIND_DESCRIPTIONS else list_class
    for line in listed(kind, plugin) if kind else list_starters():
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

    It is a copy of a shipped configuration; `looktwice list configs` lists them.
    """
    from looktwice.eval.listing import copy_config

    written = copy_config(config, out)
    say(f"wrote {written}; next: looktwice check {written}")
