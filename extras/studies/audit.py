"""The files of the audit of answers without images: the page, the list of items, and the cleaned
set."""

from __future__ import annotations

from looktwice.eval.analysis.requested import AnalysisOnRequest, AnalysisRequest
from looktwice.extras.studies.blindness import (
    Rule,
    describe_audit,
    find_audits,
    find_imageless_items,
    format_blind_items,
    make_audit_page,
    make_clean_subset,
)
from looktwice.pipelines.disk import write_file


def print_audit(asked: AnalysisRequest) -> None:
    """Write the audit of answers without the images; `rule: any` lists every item with at least one
    right answer."""
    run, out = asked.run, asked.out
    found = find_audits(run)
    if not found:
        asked.refuse(
            "seen and no-image or blank",
            "type looktwice run blindness, or give your arms these names",
        )
    rule: Rule = "any" if asked.settings.get("rule") == "any" else "chance"
    blind = find_imageless_items(found, rule)
    write_file(out / "audit.md", make_audit_page(run, found, rule))
    write_file(out / "clean.yaml", make_clean_subset(run, found, blind))
    write_file(out / "needs_no_image.csv", format_blind_items(blind))
    for line in describe_audit(found, blind, rule):
        asked.say(line)
    asked.say(f"audit: {out / 'audit.md'}, with needs_no_image.csv and clean.yaml next to it")


AUDIT_ANALYSIS = AnalysisOnRequest("Answers without the images", ("rule",), print_audit)
