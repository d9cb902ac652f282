"""The audit of answers without images: the page, the list of items, and the cleaned set."""

from __future__ import annotations

from looktwice.eval.analysis.requested import AnalysisOnRequest, AnalysisRequest
from looktwice.extras.studies.blindness import (
    Rule,
    audit_page,
    audit_sentences,
    blind_items_csv,
    find_audits,
    find_imageless_items,
    make_clean_subset,
)
from looktwice.pipelines.disk import write_file


def print_audit(asked: AnalysisRequest) -> None:
    """Write the audit of answers without the images; `rule: any` lists every item that was ever
    right."""
    run, out = asked.run, asked.out
    found = find_audits(run)
    if not found:
        asked.refuse("seen and no-image or blank", "run blindness, or rename your arms")
    rule: Rule = "any" if asked.settings.get("rule") == "any" else "chance"
    blind = find_imageless_items(found, rule)
    write_file(out / "audit.md", audit_page(run, found, rule))
    write_file(out / "clean.yaml", make_clean_subset(run, found, blind))
    write_file(out / "needs_no_image.csv", blind_items_csv(blind))
    for line in audit_sentences(found, blind, rule):
        asked.say(line)
    asked.say(f"audit: {out / 'audit.md'}, with needs_no_image.csv and clean.yaml next to it")


AUDIT = AnalysisOnRequest("Answers without the images", ("rule",), print_audit)
