"""The last steps of a search: try the winner under other marker styles, write it as a study, and
describe its cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from looktwice.eval.records.records import RunFolder
from looktwice.extras.adaptive.steering import Pool, Round, Steering
from looktwice.pipelines.config.spec import Arm, get_public_path


def find_marker_slots(arm: Arm) -> list[str]:
    """Return the slots in which an arm's stages draw marks."""
    paths = {slot: get_public_path(type(stage)) for slot, stage in arm.stages.items()}
    return [slot for slot, path in paths.items() if path.startswith("prompting.markers.")]


@dataclass(eq=False)
class FixedSamples(Steering):
    """A companion that asks all arms the same fixed list of samples."""

    kind = "discovery"
    samples: Sequence[str] = ()

    def count_answers(self, arms: Sequence[Arm], samples: int) -> int:
        """Return the number of answers: all samples for each arm."""
        return len(arms) * len(self.samples)

    def choose_rounds(self, arms: Sequence[Arm], pool: Pool) -> Iterator[Round]:
        """Yield a single round."""
        yield [(sample, arms) for sample in self.samples]


def finish_discovery(steering: Any, study: Any) -> Iterator[str]:
    """Write each winner as a study, try it under the styles, and add its cost to the results."""
    folder, paid = RunFolder(study.folder), [study.folder]
    for number, winner in enumerate(steering.winners):
        path = write_winner(study.plan, winner.arm, name_task=len(steering.winners) > 1)
        styles = _try_styles(steering, study, winner, path, paid)
        parts = styles, _describe_cost(steering, folder, winner)
        more = "".join(f"; {part}" for part in parts if part)
        steering.results[number] = replace(winner.result, remark=more)
        yield f"study of the winner on {winner.arm.task_name}: {path}"


def write_winner(plan: Any, arm: Any, name_task: bool = False) -> Path:
    """Write the arm as a study with every setting spelled out, next to the study it comes from, so
    that relative paths still work; the winner of a bundled study goes into the working folder."""
    import yaml

    from looktwice.pipelines.config.shipped import list_configs
    from looktwice.pipelines.config.spec import spec
    from looktwice.pipelines.disk import write_file

    source = plan.source
    folder = Path() if source is None or source in list_configs().values() else source.parent
    name = f"{plan.name}-{arm.task_name}-winner" if name_task else f"{plan.name}-winner"
    node = {"name": name, "tasks": {arm.task_name: spec(arm.task)}, "seed": arm.seed}
    if arm.model is not None:
        node["model"] = spec(arm.model)
    node |= {
        "stages": arm.spec["stages"],
        "read": spec(arm.read),
        "contestants": {arm.contestant: {}},
    }
    changes = ", ".join(f"{place}={value}" for place, value in arm.changes.items())
    head = f"# What `looktwice discover` found in {plan.name}: {arm.contestant} {changes}".rstrip()
    path = folder / f"{name}.yaml"
    write_file(path, f"{head}\n{yaml.safe_dump(node, sort_keys=False, allow_unicode=True)}")
    return path


def _try_styles(steering: Any, study: Any, winner: Any, path: Path, folders: list[Path]) -> str:
    """Run the winner under the styles on held-out samples and describe the worst style; empty if
    the winner draws no marks.

    The folder of this run is appended to `folders`; the runs in these folders together stay within
    the study's budget.
    """
    from looktwice.eval.display.table import score_table
    from looktwice.eval.display.text_tables import format_p
    from looktwice.eval.runs.run_models import read_cost
    from looktwice.eval.scoring.notes import COST_FILE
    from looktwice.extras.studies.fragility import measure_fragilities
    from looktwice.pipelines.config.plan import load_plan

    styles = list(steering.styles)
    if not ((slots := find_marker_slots(winner.arm)) and styles and winner.samples):
        return ""
    wanted = f"fragility={{slot: {slots[0]}, styles: {styles}, codecs: [png]}}"
    with suppress(OSError):  # the permission is requested again below
        study.plan.copy_grants_to(path)
    reach = [*map(str, study.plan.named_paths), *study.plan.hosts]
    plan = load_plan(path, [wanted, f"name={path.stem}-styles"], study.plan.plugins, reach)
    options = study.options
    if options.budget is not None:
        spent = sum(read_cost(folder / COST_FILE) for folder in folders)
        options = replace(options, budget=max(0.0, options.budget - spent))
    only = FixedSamples(samples=winner.samples)
    tried = replace(study, plan=plan, options=options, companions=[only], fresh=False)
    folders.append(tried.folder)
    if (outcome := tried()).is_stopped:
        more = ", with a larger --cost" * ("--budget" in outcome.why)
        return f"not all styles were tried; repeat the command to continue{more}"
    for fragility in measure_fragilities(score_table([tried.folder], plan=plan).scores[0]):
        worst, low, high = fragility.worst_and_best[0], fragility.means.min(), fragility.means.max()
        return (
            f"under {len(fragility.means)} marker styles, {fragility.n} samples each,"
            f" {100 * low:.1f} to {100 * high:.1f} % right, worst {worst!r} (equality of styles: p"
            f" {format_p(fragility.null_spread.p)})"
        )
    return ""


def _describe_cost(steering: Any, folder: Any, winner: Any) -> str:
    """Describe the tokens and the cost per answer of the winner and of the baseline; empty if no
    model was asked."""
    prices = list[str]()
    for arm in (winner.arm, winner.baseline):
        rows = folder.samples_by_task.get(arm.task_id, {})
        scored = [
            steering.scorers[arm.id](record, rows[record.sample])
            for record in folder.last_records()
            if record.point == arm.id and not record.error
        ]
        if not sum(entry.tokens_in for entry in scored):
            return ""
        tokens = fmean(entry.tokens_in + entry.tokens_out for entry in scored)
        costs = [entry.cost for entry in scored if entry.cost is not None]
        prices.append(f"{tokens:,.0f} tokens" + (f", cost {fmean(costs):.2g}" if costs else ""))
    return f"{prices[0]} per answer (baseline {prices[1]})"
