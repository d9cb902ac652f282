"""The commands that ask of a finished run whether the picture mattered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from looktwice.eval.cli_options import AllowedOfRun, Plugins, Reader, build_reader, input_errors, load_plugins, say

__all__: list[str] = []

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Role = Annotated[
    list[str] | None, typer.Option("--role", help="black=placebo: the contestant that stands for an arm of that name.")
]


def certify(
    run: Run,
    role: Role = None,
    out: Annotated[Path | None, typer.Option(help="The page (default: RUN/certificate.md).")] = None,
    reader: Reader = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Say what an agent's tool contributes, and by what.

    Of a run of configs/tool_contribution.yaml, or of any with contestants of these names.
    """
    with input_errors(allow):
        from looktwice.eval.analysis.contribution import ARMS, certificate_page, certificates
        from looktwice.eval.records.records import RunError, RunFolder, refuse_run_file
        from looktwice.eval.scoring.score import score_run
        from looktwice.pipelines.disk import write_file

        plugins = load_plugins(plugin)
        roles = dict(_parse_role(each, ARMS) for each in role or ())
        scored = score_run(RunFolder(run), build_reader(reader, plugins), plugins=plugins)
        found = certificates(scored, roles)
        if not found:
            there = ", ".join(dict.fromkeys(scores.point.contestant for scores in scored.points))
            raise RunError(
                f"{run} has no arms to compare: it needs the contestants without, full and one of "
                f"{', '.join(name for name in ARMS if name not in ('without', 'full'))}, and has {there}; run "
                "tool_contribution, or say which stands for which: --role without=NAME"
            )
        page = out or run / "certificate.md"
        refuse_run_file(page)
        write_file(page, certificate_page(scored, found))
        for one in found:
            for line in (f"{one.arms['full'].contestant} on {one.arms['full'].task}:", *one.verdict):
                say(line)
        say(f"certificate: {page}")


def _parse_role(text: str, arms: Mapping[str, str]) -> tuple[str, str]:
    name, equals, contestant = text.partition("=")
    if not (equals and contestant and name in arms):
        raise typer.BadParameter(f"--role {text}: expected ARM=CONTESTANT, with one of {', '.join(arms)}")
    return name, contestant
