"""The command that asks finished runs one question: any table of the report, or a finding with a
page of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
import yaml

from looktwice.eval.cli_options import (
    AllowedOfRun,
    By,
    Judged,
    Plugins,
    Reader,
    build_reader,
    input_errors,
    load_plugins,
    print_text_table,
    say,
)


def analyse(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN... NAME [KEY=VALUE]...",
            help="Run folders, the name of an analysis, and its settings.",
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the analyses.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Where a page is written (default: into the run).")
    ] = None,
    reader: Reader = None,
    by: By = None,
    judge: Judged = "",
    plugin: Plugins = None,
    allow: AllowedOfRun = None,
) -> None:
    """Ask finished runs one question; no model is called.

    Any table of the report by name, what a tool contributes (certify), what needs no image (audit),
    where a model loses the answer (probe), or thresholds along a field.
    """
    with input_errors(allow, out=out):
        from looktwice.eval.analysis.analyses import ANALYSES, analysis
        from looktwice.eval.display.table import score_table
        from looktwice.eval.records.records import RunError

        runs = [Path(word) for word in words or () if Path(word).is_dir()]
        others = [word for word in words or () if not Path(word).is_dir()]
        settings = _read_settings([word for word in others if "=" in word])
        names = [word for word in others if "=" not in word]
        if listed or not words:
            titles = {part.name: part.title for part in ANALYSES}
            titles |= {name: finding.title for name, finding in FINDINGS.items()}
            for name, title in titles.items():
                say(f"{name:{max(map(len, titles))}}  {title}")
            return
        if not runs or len(names) != 1:
            raise RunError(
                f"expected run folders and the name of one analysis, found {' '.join(words or ())};"
                " `looktwice analyse --list` names them"
            )
        finding = FINDINGS.get(names[0])
        part = None if finding else analysis(names[0])
        if unknown := settings.keys() - set(finding.settings if finding else ()):
            known = ", ".join(finding.settings) if finding else "none"
            raise RunError(
                f"{names[0]} has no setting {', '.join(sorted(unknown))}; there are {known}"
            )
        plugins = load_plugins(plugin)
        scored = score_table(runs, build_reader(reader, plugins), by or (), judge, plugins=plugins)
        if finding:
            finding.tell(scored.scores, settings, out or runs[0], plugins)
            return
        tables = [shown for shown in part.tables(scored) if shown.table.rows] if part else []
        if not tables:
            say(f"{names[0]}: these runs have nothing to show")
        for shown in tables:
            print_text_table(shown.table, shown.title, shown.note)


def _read_settings(words: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE by key; KEY.NAME=VALUE are gathered as a mapping under KEY."""
    settings: dict[str, Any] = {}
    for word in words:
        key, _, text = word.partition("=")
        first, _, name = key.partition(".")
        value = yaml.safe_load(text)
        settings[first] = {**settings.get(first, {}), name: value} if name else value
    return settings


def tell_certificates(
    runs: Sequence[Any], settings: Mapping[str, Any], out: Path, plugins: Sequence[str]
) -> None:
    """What a tool contributes, by the arms of tool_contribution, or those that `role` names."""
    from looktwice.eval.analysis.looking.contribution import ARMS, certificate_page, certificates
    from looktwice.eval.records.records import RunError
    from looktwice.pipelines.disk import write_file

    roles = settings.get("role", {})
    if unknown := set(roles) - set(ARMS):
        raise RunError(f"role.{min(unknown)}: the arms are {', '.join(ARMS)}")
    certified = certificates(runs[0], roles)
    if not certified:
        controls = ", ".join(name for name in ARMS if name not in ("without", "full"))
        raise RunError(
            f"{runs[0].folder.path} has no arms to compare: it needs the contestants without, full"
            f" and one of {controls}, and has {_contestants(runs[0])}; run tool_contribution, or"
            " say which stands for which: role.without=NAME"
        )
    page = _page(out, "certificate.md")
    write_file(page, certificate_page(runs[0], certified))
    for certificate in certified:
        arm = certificate.arms["full"]
        for line in (f"{arm.contestant} on {arm.task}:", *certificate.verdict):
            say(line)
    say(f"certificate: {page}")


def tell_audit(
    runs: Sequence[Any], settings: Mapping[str, Any], out: Path, plugins: Sequence[str]
) -> None:
    """What is answered without the images; `rule: any` lists every item that once was."""
    from looktwice.eval.analysis.looking import blindness, blindness_page
    from looktwice.eval.records.records import RunError
    from looktwice.pipelines.disk import write_file

    audits = blindness.audits(runs[0])
    if not audits:
        raise RunError(
            f"{runs[0].folder.path} has no arms to compare: it needs the contestants seen and"
            f" no-image or blank, and has {_contestants(runs[0])}; run blindness, or name yours so"
        )
    rule: blindness.Rule = "any" if settings.get("rule") == "any" else "chance"
    blind = blindness.needs_no_image(audits, rule)
    write_file(out / "audit.md", blindness_page.audit_page(runs[0], audits, rule))
    write_file(out / "clean.yaml", blindness_page.clean_subset(runs[0], audits, blind))
    write_file(out / "needs_no_image.csv", blindness_page.blind_items_csv(blind))
    for line in blindness_page.audit_sentences(audits, blind, rule):
        say(line)
    say(f"audit: {out / 'audit.md'}, needs_no_image.csv and clean.yaml beside it")


def tell_probes(
    runs: Sequence[Any], settings: Mapping[str, Any], out: Path, plugins: Sequence[str]
) -> None:
    """Where in a model the answer is lost, by linear probes on every layer, tried on the share
    `held_out` of the pictures of at most `limit` questions of each arm."""
    from looktwice.eval.probes.arms import probe_run
    from looktwice.eval.probes.page import NOTE, probe_page, probe_sentences, probe_table
    from looktwice.eval.records.records import RunError
    from looktwice.pipelines.disk import write_file

    page, share = _page(out, "probes.md"), float(settings.get("held_out", 0.4))
    if not 0.1 <= share <= 0.9:
        raise RunError(f"held_out is a share from 0.1 to 0.9, found {share}")
    probed = probe_run(
        runs[0], plugins, share, settings.get("limit"), lambda line: typer.echo(line, err=True)
    )
    for why in dict.fromkeys(probed.left_out.values()):
        names = "; ".join(name for name, reason in probed.left_out.items() if reason == why)
        say(f"not probed: {names} ({why})")
    if not probed.arms:
        raise RunError(
            f"{runs[0].folder.path} has no arm to probe; `looktwice run probes` makes a run that"
            " has"
        )
    print_text_table(probe_table(probed, whole=False), "read in the layers", NOTE)
    for arm in probed.arms:
        say(" ".join(probe_sentences(arm)))
    write_file(page, probe_page(runs[0], probed))
    say(f"probes: {page}")


def tell_thresholds(
    runs: Sequence[Any], settings: Mapping[str, Any], out: Path, plugins: Sequence[str]
) -> None:
    """Accuracy along a field, with the settings of the entry `thresholds`, in place of the
    run's."""
    from looktwice.eval.psychometrics.thresholds import NOTE, Along, threshold_table
    from looktwice.eval.records.records import RunError

    if settings.get("direction") not in (None, "rising", "falling"):
        raise RunError(f"direction is rising or falling, found {settings['direction']!r}")
    along = settings.get("along")
    table = threshold_table(runs, Along.of(settings))
    if not table.rows:
        field = f"no sample has numbers in {along!r}"
        raise RunError(field if along else "name a field with numbers: along=size")
    print_text_table(table, "thresholds", NOTE)


class Finding(NamedTuple):
    """An analysis that takes settings, and says what it found in sentences or on a page."""

    title: str
    settings: tuple[str, ...]
    tell: Callable[[Sequence[Any], Mapping[str, Any], Path, Sequence[str]], None]


FINDINGS = {
    "certify": Finding("What a tool contributes, and by what", ("role",), tell_certificates),
    "audit": Finding("What is answered without the images", ("rule",), tell_audit),
    "probe": Finding("Where in a model the answer is lost", ("held_out", "limit"), tell_probes),
    "thresholds": Finding(
        "Accuracy along a field, and its thresholds",
        ("along", "target", "scale", "direction"),
        tell_thresholds,
    ),
}


def _contestants(run: Any) -> str:
    return ", ".join(dict.fromkeys(scores.point.contestant for scores in run.points))


def _page(out: Path, name: str) -> Path:
    """The file `out`, or the one of this name in the folder `out`; never one of a run's own."""
    from looktwice.eval.records.records import refuse_run_file

    page = out if out.suffix else out / name
    refuse_run_file(page)
    return page
