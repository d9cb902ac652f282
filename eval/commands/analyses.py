"""The command that asks finished runs one question: any table of the report, or a finding with a
page of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import yaml
from typer import Argument, Option, echo

from looktwice.eval.commands.options import (
    NONE,
    By,
    Judged,
    Plugins,
    Reader,
    build_reader,
    print_text_table,
    refuse,
    say,
)
from looktwice.pipelines.disk import dump_yaml, write_file


def analyse(
    words: Annotated[
        list[str],
        Argument(
            metavar="RUN... NAME [KEY=VALUE]...",
            help="Run folders, the name of an analysis, and its settings.",
        ),
    ] = NONE,
    listed: Annotated[bool, Option("--list", help="List the analyses.")] = False,
    out: Annotated[
        Path | None, Option(help="Where a page is written (default: into the run).")
    ] = None,
    reader: Reader = None,
    by: By = NONE,
    judge: Judged = "",
    plugin: Plugins = NONE,
) -> None:
    """Ask finished runs one question; no model is called.

    Any table of the report by name, what a tool contributes (certify), what needs no image (audit),
    where a model loses the answer (probe), or thresholds along a field.
    """
    from looktwice.eval.analysis.analyses import ANALYSES, analysis
    from looktwice.eval.display.table import score_table

    titles = {part.name: part.title for part in ANALYSES}
    titles |= {name: finding.title for name, finding in FINDINGS.items()}
    if listed or not words:
        for name, title in titles.items():
            say(f"{name:{max(map(len, titles))}}  {title}")
        return
    runs, names, settings = _parse(words)
    missing = sorted(set(names) - titles.keys())
    if missing and len(words) > 1 and (not runs or len(names) > 1):
        refuse(f"there is no folder {missing[0]}, and no analysis of this name")
    if not runs or len(names) != 1:
        refuse(
            f"expected run folders and the name of one analysis, found {' '.join(words)};"
            " `looktwice analyse --list` names them"
        )
    (name,) = names
    finding = FINDINGS.get(name) or Finding("", (), partial(tell_tables, analysis(name)))
    if unknown := settings.keys() - set(finding.settings):
        settable = ", ".join(finding.settings) or "none"
        refuse(f"{name} has no setting {', '.join(sorted(unknown))}; there are {settable}")
    scored = score_table(runs, build_reader(reader, plugin), by, judge, plugins=plugin)
    finding.tell(Asked(scored, settings, out or runs[0], plugin))


def _parse(words: Sequence[str]) -> tuple[list[Path], list[str], dict[str, Any]]:
    """The run folders, the names, and KEY=VALUE by key; KEY.NAME=VALUE are gathered as a mapping
    under KEY."""
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


class Asked(NamedTuple):
    """What an analysis is asked of: the table of the scored runs, its settings, where a page goes,
    and the plugins."""

    scored: Any
    settings: Mapping[str, Any]
    out: Path
    plugins: Sequence[str]

    @property
    def run(self) -> Any:
        """The first run."""
        return self.scored.scores[0]

    def page(self, name: str) -> Path:
        """The file `out`, or the one of this name in the folder `out`; never one of a run's own."""
        from looktwice.eval.records.records import refuse_run_file

        page = self.out if self.out.suffix else self.out / name
        refuse_run_file(page)
        return page

    def refuse(self, needed: str, advice: str) -> NoReturn:
        """Raises RunError for a run without the arms to compare."""

        names = ", ".join(dict.fromkeys(scores.point.contestant for scores in self.run.points))
        if not any(scores.keyed for scores in self.run.points):
            refuse(f"{self.run.folder.path} has no keys, so nothing in it is right or wrong")
        refuse(
            f"{self.run.folder.path} has no arms to compare: it needs the contestants {needed},"
            f" and has {names}; {advice}"
        )


def tell_tables(part: Any, asked: Asked) -> None:
    """The tables of an analysis of the report."""
    tables = [shown for shown in part.tables(asked.scored) if shown.table.rows]
    if not tables:
        needs = f"; it needs {part.needs}" if part.needs else ""
        say(f"{part.name}: these runs have nothing to show{needs}")
    for shown in tables:
        facts = (f"{name}: {value}" for name, value in shown.facts)
        print_text_table(shown.table, shown.title, "\n".join((*facts, shown.note)))


def tell_certificates(asked: Asked) -> None:
    """What a tool contributes, by the arms of tool_contribution, or those that `role` names."""
    from looktwice.eval.analysis.looking.contribution import ARMS, certificate_page, certificates

    roles = asked.settings.get("role", {})
    if unknown := set(roles) - set(ARMS):
        refuse(f"role.{min(unknown)}: the arms are {', '.join(ARMS)}")
    certified = certificates(asked.run, roles)
    if not certified:
        controls = ", ".join(name for name in ARMS if name not in ("without", "full"))
        asked.refuse(
            f"without, full and one of {controls}",
            "run tool_contribution, or say which stands for which: role.without=NAME",
        )
    page = asked.page("certificate.md")
    write_file(page, certificate_page(asked.run, certified))
    for certificate in certified:
        arm = certificate.arms["full"]
        for line in (f"{arm.contestant} on {arm.task}:", *certificate.verdict):
            say(line)
    say(f"certificate: {page}")


def tell_audit(asked: Asked) -> None:
    """What is answered without the images; `rule: any` lists every item that once was."""
    from looktwice.eval.analysis.looking import blindness

    run, out = asked.run, asked.out
    audits = blindness.audits(run)
    if not audits:
        asked.refuse("seen and no-image or blank", "run blindness, or name yours so")
    rule: blindness.Rule = "any" if asked.settings.get("rule") == "any" else "chance"
    blind = blindness.needs_no_image(audits, rule)
    write_file(out / "audit.md", blindness.audit_page(run, audits, rule))
    write_file(out / "clean.yaml", blindness.clean_subset(run, audits, blind))
    write_file(out / "needs_no_image.csv", blindness.blind_items_csv(blind))
    for line in blindness.audit_sentences(audits, blind, rule):
        say(line)
    say(f"audit: {out / 'audit.md'}, needs_no_image.csv and clean.yaml beside it")


def tell_probes(asked: Asked) -> None:
    """Where in a model the answer is lost, by linear probes on every layer, tried on the share
    `held_out` of the pictures of at most `limit` questions of each arm."""
    from looktwice.eval.probes.arms import NOTE, probe_page, probe_run, probe_sentences, probe_table

    page, share = asked.page("probes.md"), asked.settings.get("held_out", 0.4)
    if not isinstance(share, float) or not 0.1 <= share <= 0.9:
        refuse(f"held_out is a share from 0.1 to 0.9, found {share}")
    limit, tell = asked.settings.get("limit"), partial(echo, err=True)
    if not isinstance(limit, int | None):
        refuse(f"limit is a number of questions, found {limit!r}")
    probed = probe_run(asked.run, asked.plugins, share, limit, tell)
    for why in dict.fromkeys(probed.left_out.values()):
        names = "; ".join(name for name, reason in probed.left_out.items() if reason == why)
        say(f"not probed: {names} ({why})")
    if not probed.arms:
        refuse(
            f"{asked.run.folder.path} has no arm to probe; `looktwice run probes` makes a run that"
            " has"
        )
    print_text_table(probe_table(probed, whole=False), "read in the layers", NOTE)
    for arm in probed.arms:
        say(" ".join(probe_sentences(arm)))
    write_file(page, probe_page(asked.run, probed))
    say(f"probes: {page}")


def tell_thresholds(asked: Asked) -> None:
    """Accuracy along a field, with the settings of the entry `thresholds`, in place of the
    run's."""
    from pydantic import TypeAdapter, ValidationError

    from looktwice.eval.psychometrics.thresholds import NOTE, Along, say_no_levels, threshold_table
    from looktwice.pipelines.config.entries import Thresholds

    along = asked.settings.get("along")
    try:
        TypeAdapter(Thresholds).validate_python({**asked.settings})
    except ValidationError as exc:
        fault = exc.errors()[0]
        place = fault["loc"][0]
        refuse(f"{place}: {fault['msg'].lower()}, found {fault['input']!r}")
    table = threshold_table(asked.scored.scores, Along.of({"thresholds": asked.settings}))
    if not table.rows:
        samples = [row for scores in asked.scored.scores for row in scores.folder.samples.values()]
        lacking = say_no_levels((row.meta for row in samples), along)
        refuse(lacking or f"no arm answered a sample that has numbers in {along!r}")
    print_text_table(table, "thresholds", NOTE)


def tell_items(asked: Asked) -> None:
    """How hard each item is, and what `n` of them, a tenth if not given, tell of each arm's total;
    both are written beside the run."""
    from looktwice.eval.display.printable import csv_text
    from looktwice.eval.display.text_tables import table
    from looktwice.eval.psychometrics import item_response as response

    values = response.item_values(asked.run)
    most = len(values.units)
    n = asked.settings.get("n", -(-most // 10))
    if not isinstance(n, int) or not 1 <= n <= most:
        refuse(f"n is 1 to {most}, the items that all arms answered; found {n!r}")
    try:
        items, lines = response.fit_items(values.value), [*response.predict_arms(values, n)]
    except ValueError as exc:
        refuse(f"{asked.run.folder.path}: {exc}")
    print_text_table(table(response.COLUMNS, lines), f"totals from {n} items", response.NOTE)
    rows: list[tuple[str, ...]] = [("task", "sample", "difficulty", "error", "right")]
    shares = values.value.mean(axis=0)
    for unit, *numbers in zip(values.units, items.difficulty, items.error, shares, strict=True):
        rows.append((*unit, *map("{:.3f}".format, numbers)))
    subset: dict[str, Any] = {}
    for place in response.pick_items(items, [task for task, _ in values.units], n):
        task, sample = values.units[place]
        subset.setdefault(task, {"subset": {"ids": []}})["subset"]["ids"].append(sample)
    page = asked.page("items.csv")
    write_file(page, csv_text(rows))
    short = "task" in asked.run.config and len(subset) == 1
    node = {"task": subset.popitem()[1]} if short else {"tasks": subset}
    write_file(page.with_name("subset.yaml"), dump_yaml(node))
    say(f"items: {page}, and {n} of them in subset.yaml beside it, for `include:` and `--only`")


class Finding(NamedTuple):
    """An analysis that takes settings, and says what it found in sentences or on a page."""

    title: str
    settings: tuple[str, ...]
    tell: Callable[[Asked], None]


FINDINGS = {
    "certify": Finding("What a tool contributes, and by what", ("role",), tell_certificates),
    "audit": Finding("What is answered without the images", ("rule",), tell_audit),
    "probe": Finding("Where in a model the answer is lost", ("held_out", "limit"), tell_probes),
    "items": Finding("How hard each item is, and totals from few of them", ("n",), tell_items),
    "thresholds": Finding(
        "Accuracy along a field, and its thresholds",
        ("along", "target", "scale", "direction"),
        tell_thresholds,
    ),
}
