"""The commands that ask of a finished run whether the picture mattered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from looktwice.eval.cli_options import (
    AllowedOfRun,
    Plugins,
    Reader,
    build_reader,
    input_errors,
    load_plugins,
    say,
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Role = Annotated[
    list[str] | None,
    typer.Option(
        "--role", help="black=placebo: the contestant that stands for an arm of that name."
    ),
]


def certify(
    run: Run,
    role: Role = None,
    out: Annotated[
        Path | None, typer.Option(help="The page (default: RUN/certificate.md).")
    ] = None,
    reader: Reader = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Say what an agent's tool contributes, and by what.

    Of a run of configs/tool_contribution.yaml, or of any with contestants of these names.
    """
    with input_errors(allow, out=out):
        from looktwice.eval.analysis.looking.contribution import (
            ARMS,
            certificate_page,
            certificates,
        )
        from looktwice.eval.records.records import RunError, RunFolder, refuse_run_file
        from looktwice.eval.scoring.score_run import score_run
        from looktwice.pipelines.disk import write_file

        plugins = load_plugins(plugin)
        roles = dict(_parse_role(each, ARMS) for each in role or ())
        scored = score_run(RunFolder(run), build_reader(reader, plugins), plugins=plugins)
        found = certificates(scored, roles)
        if not found:
            there = ", ".join(dict.fromkeys(scores.point.contestant for scores in scored.points))
            raise RunError(
                f"{run} has no arms to compare: it needs the contestants without, full and one of"
                f" {', '.join(name for name in ARMS if name not in ('without', 'full'))}, and has"
                f" {there}; run tool_contribution, or say which stands for which: --role"
                " without=NAME"
            )
        page = out or run / "certificate.md"
        refuse_run_file(page)
        write_file(page, certificate_page(scored, found))
        for one in found:
            for line in (
                f"{one.arms['full'].contestant} on {one.arms['full'].task}:",
                *one.verdict,
            ):
                say(line)
        say(f"certificate: {page}")


def audit(
    run: Run,
    any_answer: Annotated[
        bool,
        typer.Option(
            "--any", help="List every item that was once right without its image, luck included."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write into (default: RUN).")
    ] = None,
    reader: Reader = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Say what is answered without the images.

    Of a run of configs/blindness.yaml: mirage scores, bias of letters, the items that need no
    image, and the others as a subset, clean.yaml.
    """
    with input_errors(allow, out=out):
        from looktwice.eval.analysis.looking import blindness
        from looktwice.eval.records.records import RunError, RunFolder
        from looktwice.eval.scoring.score_run import score_run
        from looktwice.pipelines.disk import write_file

        plugins = load_plugins(plugin)
        scored = score_run(RunFolder(run), build_reader(reader, plugins), plugins=plugins)
        found = blindness.audits(scored)
        if not found:
            there = ", ".join(dict.fromkeys(scores.point.contestant for scores in scored.points))
            raise RunError(
                f"{run} has no arms to compare: it needs the contestants seen and no-image or"
                f" blank, and has {there}; run blindness, or name yours so"
            )
        rule: blindness.Rule = "any" if any_answer else "chance"
        blind, folder = blindness.needs_no_image(found, rule), out or run
        write_file(folder / "audit.md", blindness.audit_page(scored, found, rule))
        write_file(folder / "clean.yaml", blindness.clean_subset(scored, found, blind))
        write_file(folder / "needs_no_image.csv", blindness.blind_items_csv(blind))
        for line in blindness.audit_sentences(found, blind, rule):
            say(line)
        say(f"audit: {folder / 'audit.md'}, needs_no_image.csv and clean.yaml beside it")


def probe(
    run: Run,
    held_out: Annotated[
        float,
        typer.Option(min=0.1, max=0.9, help="The share of pictures that the probes are tried on."),
    ] = 0.4,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only this many questions of each arm.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The page (default: RUN/probes.md).")] = None,
    reader: Reader = None,
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Say where in a model the answer is lost: tower, projector, decoder or words.

    Of a run with LocalVLM or Pocket: linear probes on every layer, against the model's own answers.
    """
    with input_errors(allow, out=out):
        from looktwice.eval.commands.measures import print_text_table
        from looktwice.eval.probes.arms import probe_run
        from looktwice.eval.probes.page import NOTE, probe_page, probe_sentences, probe_table
        from looktwice.eval.records.records import RunError, RunFolder, refuse_run_file
        from looktwice.eval.scoring.score_run import score_run
        from looktwice.pipelines.disk import write_file

        page, plugins = out or run / "probes.md", load_plugins(plugin)
        refuse_run_file(page)
        scored = score_run(RunFolder(run), build_reader(reader, plugins), plugins=plugins)
        found = probe_run(scored, plugins, held_out, limit, lambda said: typer.echo(said, err=True))
        for why in dict.fromkeys(found.left_out.values()):
            say(
                "not probed:"
                f" {'; '.join(name for name, its in found.left_out.items() if its == why)} ({why})"
            )
        if not found.arms:
            raise RunError(
                f"{run} has no arm to probe; `looktwice run probes` makes a run that has"
            )
        print_text_table(probe_table(found, whole=False), "read in the layers", NOTE)
        for arm in found.arms:
            say(" ".join(probe_sentences(arm)))
        write_file(page, probe_page(scored, found))
        say(f"probes: {page}")


def _parse_role(text: str, arms: Mapping[str, str]) -> tuple[str, str]:
    name, equals, contestant = text.partition("=")
    if not (equals and contestant and name in arms):
        raise typer.BadParameter(
            f"--role {text}: expected ARM=CONTESTANT, with one of {', '.join(arms)}"
        )
    return name, contestant
