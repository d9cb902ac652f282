"""The command `judge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from looktwice.eval.commands.options import (
    NO_VALUES,
    JudgeOverrides,
    OnlyCachedReplies,
    Plugins,
    Reader,
    RunPath,
    Workers,
    build_reader,
    parse_columns,
    say,
)
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.runtime.process import get_interrupt_code


def judge(
    run: RunPath,
    overrides: JudgeOverrides = NO_VALUES,
    model: Annotated[
        str, Option("--model", help="The judge: the name of a model under `models:`.")
    ] = "",
    config: Annotated[
        Path | None, Option(help="The configuration with `models:` (default: the run's).")
    ] = None,
    only: Annotated[
        list[str],
        Option(
            "--pass",
            help="A pass to run: vid, cot, unreadable (default: all three), every, steps, key.",
        ),
    ] = NO_VALUES,
    prompt: Annotated[
        Path | None,
        Option(help="A file with your own prompt: a text with {question}, {choices}, {reply} ..."),
    ] = None,
    column: Annotated[
        list[str], Option(help="A column that cot or steps read: clues=, truth= or steps=COLUMN.")
    ] = NO_VALUES,
    reader: Reader = None,
    workers: Workers = 16,
    cache: Annotated[
        Path | None, Option(help="The folder of the reply cache (default: next to the run).")
    ] = None,
    only_cached: OnlyCachedReplies = False,
    plugin: Plugins = NO_VALUES,
) -> None:
    """Let a model grade replies that no rule can read.

    Scores and reports then use its verdicts. With your own prompt, the judge is named MODEL+FILE.
    """
    from looktwice.extras.judging.command import RunJudge, build_judge_model
    from looktwice.extras.judging.passes import Wording

    wording = Wording.read(prompt) if prompt else None
    name = f"{model}+{wording.name}" if wording else model
    built = build_judge_model(run, model, config, overrides, plugin)
    columns, read = parse_columns(column), build_reader(reader, plugin)
    judging = RunJudge(
        run, name, built, only, read, columns, workers, cache, only_cached, plugin, wording=wording
    )
    try:
        failed = judging(say)
    except KeyboardInterrupt as exc:
        say("stopped; the judgements so far are saved; repeat the command to continue")
        raise Exit(get_interrupt_code(exc)) from None
    if failed:
        replies = format_count(failed, "reply", "replies")
        say(f"{replies} could not be judged; repeat the command to retry")
        raise Exit(1)
