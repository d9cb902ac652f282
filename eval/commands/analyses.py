"""The command that runs one analysis of finished runs: any table of the report, or an analysis with
its own page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from typer import Argument, Option

from looktwice.eval.commands.options import (
    NO_VALUES,
    JudgeName,
    Plugins,
    Reader,
    SliceFields,
    build_reader,
    print_text_table,
    refuse,
    say,
)


def analyse(
    words: Annotated[
        list[str],
        Argument(
            metavar="RUN... NAME [KEY=VALUE]...",
            help="Run folders, the name of an analysis, and its settings.",
        ),
    ] = NO_VALUES,
    listed: Annotated[bool, Option("--list", help="List the analyses.")] = False,
    out: Annotated[
        Path | None, Option(help="The file or folder for a page (default: the run folder).")
    ] = None,
    reader: Reader = None,
    by: SliceFields = NO_VALUES,
    judge: JudgeName = "",
    plugin: Plugins = NO_VALUES,
) -> None:
    """Run one analysis of finished runs; no model is called.

    NAME is a table of the report, or an analysis that shows what a tool contributes (certify),
    which samples need no image (audit), where a model loses the answer (probe), or thresholds along
    a field.
    """
    from looktwice.eval.analysis.analyses import get_analysis, list_analyses
    from looktwice.eval.analysis.requested import AnalysisRequest
    from looktwice.eval.display.table import score_table

    titles = {name: extension.help for name, extension in list_analyses().items()}
    if listed or not words:
        for name, title in titles.items():
            say(f"{name:{max(map(len, titles))}}  {title}")
        return
    runs, names, settings = _parse_words(words)
    missing = sorted(set(names) - titles.keys())
    if missing and len(words) > 1 and (not runs or len(names) > 1):
        refuse(
            f"{missing[0]} is neither a folder nor an analysis; `looktwice analyse --list` lists"
            " the analyses"
        )
    if not runs or len(names) != 1:
        refuse(
            f"expected run folders and the name of one analysis, found {' '.join(words)};"
            " `looktwice analyse --list` lists the analyses"
        )
    (name,) = names
    finding: Any = get_analysis(name)
    if unknown := settings.keys() - set(finding.settings):
        settable = ", ".join(finding.settings) or "none"
        refuse(f"{name} has no setting {', '.join(sorted(unknown))}; its settings: {settable}")
    scored = score_table(runs, build_reader(reader, plugin), by, judge, plugins=plugin)
    finding.answer(AnalysisRequest(scored, settings, out or runs[0], plugin, say, print_text_table))


def _parse_words(words: Sequence[str]) -> tuple[list[Path], list[str], dict[str, Any]]:
    """Split the arguments into run folders, names, and settings from KEY=VALUE; KEY.NAME=VALUE
    becomes an entry of a mapping under KEY."""
    runs, names, settings = list[Path](), list[str](), dict[str, Any]()
    for word in words:
        key, equals, text = word.partition("=")
        if Path(word).is_dir():
            runs.append(Path(word))
        elif equals:
            first, _, name = key.partition(".")
            value = yaml.safe_load(text)
            settings[first] = {**settings.get(first, {}), name: value} if name else value
        else:
            names.append(word)
    return runs, names, settings
