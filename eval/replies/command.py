"""What `looktwice replies` does: scores recorded replies by their labels or a reader, lists
differences, exports."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from looktwice.eval.display.sample_page import file_names
from looktwice.eval.readers.reader import build_reader
from looktwice.eval.records.records import refuse_run_file
from looktwice.eval.replies.exports import export
from looktwice.eval.replies.files import CHOICES, letter_of, load_key, load_replies, model_name
from looktwice.eval.replies.label_proofs import disprove_label
from looktwice.eval.replies.scored import (
    ScoredReplies,
    ScoredReply,
    score_replies,
    score_run_replies,
)
from looktwice.eval.scoring.row import macro_row, micro_row
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.state import Stage


def replies_lines(
    files: Sequence[Path],
    reader: str | None = None,
    key: Path | None = None,
    disagreements: Path | None = None,
    exports: Sequence[Path] = (),
    plugins: Sequence[str] = (),
) -> Iterator[str]:
    """A line of figures per file and one for all of them; writes the list of disagreements where
    asked.

    Without a reader the recorded labels are the answers. `key` maps idx to "(X)"; without one the
    keys in the files count, where they are not hidden. A run folder counts as one file for each of
    its contestants, read with the reader or else as its configuration says. `exports` are files to
    write the answers into, in the format of their endings (see `exports.FORMATS`); with several
    files of replies, their names hold `{name}`. Raises TaskError, RunError and ConfigError.
    """
    stage = build_reader(reader, plugins) if reader else None
    if disagreements is not None and stage is None:
        raise TaskError(
            "--disagreements compares a reader with the recorded labels; name one with --reader"
        )
    keys = load_key(key) if key is not None else None
    total: list[ScoredReplies] = []
    for file in files:
        found = _score(file, keys, stage, plugins)
        if alike := [
            path for path in exports if len(files) * len(found) > 1 and "{name}" not in str(path)
        ]:
            many = f"{len(files)} files" if len(files) > 1 else f"{len(found)} contestants"
            raise TaskError(
                f"--export {alike[0]}: {many} need {{name}} in it, such as out/{{name}}.json"
            )
        for scored in found:
            subtasks = scored.subtasks
            parts = _figures([scored], scored.by_reader)
            parts += (
                [f"subtasks={len(subtasks)}/{len(CHOICES)}"] if subtasks < CHOICES.keys() else []
            )
            parts += [f"missing={scored.missing}"] if scored.missing else []
            yield f"{scored.name}: {', '.join(parts)}"
            for path in exports:
                out = Path(str(path).replace("{name}", file_names([scored.name])[scored.name]))
                yield f"exported: {export(scored.replies, out)} in {out}"
        total += found
    by_reader, count = any(scored.by_reader for scored in total), f"files={len(total)}"
    figures = _figures(total, by_reader)
    yield f"total: {', '.join([*figures, count] if by_reader else [count, *figures])}"
    if disagreements is not None:
        refuse_run_file(disagreements)
        text, number = list_disagreements(total)
        write_file(disagreements, text.encode(errors="backslashreplace"))
        yield f"disagreements: {number} in {disagreements}"


def _score(
    file: Path, keys: Mapping[str, str] | None, reader: Stage | None, plugins: Sequence[str]
) -> list[ScoredReplies]:
    if file.is_dir():
        return score_run_replies(file, keys, reader, plugins)
    return [score_replies(model_name(file), load_replies(file), keys, reader)]


def _figures(held: Sequence[ScoredReplies], by_reader: bool) -> list[str]:
    """The figures of one file or of several, in percent: of all their items, and macro the mean of
    the files' macros.

    Macro is over subtasks, as BLINK's total is; the accuracy over all items is called micro where
    labels are scored.
    """
    micro = micro_row([row for scored in held for row in scored.accuracy])
    coverage = micro_row([row for scored in held for row in scored.coverage])
    macros = [value for scored in held if (value := macro_row(scored.accuracy).value) is not None]
    n, covered = f"n={coverage.n}", 100 * (coverage.value or 0.0)
    if not by_reader:
        figures = (
            [f"macro={100 * fmean(macros):.2f}", f"micro={100 * (micro.value or 0.0):.2f}"]
            if macros
            else []
        )
        return [n, *figures, f"coverage={covered:.2f}"]
    agreements = [
        reply.agrees for scored in held for reply in scored.replies if reply.agrees is not None
    ]
    figures = [n, f"agreement={100 * fmean(agreements):.2f}%"] if agreements else [n]
    if not macros:
        return [*figures, f"coverage={covered:.2f}%"]
    accuracy, macro = 100 * (micro.value or 0.0), 100 * fmean(macros)
    return [
        *figures,
        f"accuracy={accuracy:.2f}%",
        f"coverage={covered:.2f}%",
        f"macro={macro:.2f}%",
        f"scored={micro.n}",
    ]


def list_disagreements(held: Sequence[ScoredReplies]) -> tuple[str, int]:
    """Where reader and recorded label differ, by kind and with the replies, and how many there are.

    The kinds come most frequent first; those where the reply itself proves the label wrong are
    marked as such.
    """
    kinds: dict[str, list[str]] = defaultdict(list)
    for scored in held:
        for reply in (reply for reply in scored.replies if reply.agrees is False):
            kinds[_kind_of_disagreement(reply)].append(_entry(scored.name, reply))
    ordered = sorted(kinds.items(), key=lambda pair: -len(pair[1]))
    blocks = [f"# {kind}: {len(entries)}\n\n" + "\n".join(entries) for kind, entries in ordered]
    return "\n".join(blocks), sum(map(len, kinds.values()))


def _kind_of_disagreement(reply: ScoredReply) -> str:
    label = letter_of(reply.recorded.label)
    proof = disprove_label(
        reply.recorded, (label or "").strip("()") or None, (reply.answer or "").strip("()") or None
    )
    if proof:
        shown = re.sub(r"\b[A-Z]\b", "X", proof)
        return f"the label is proved wrong ({shown})"
    if reply.answer is None:
        return f"the reader finds nothing ({reply.reason.partition(':')[0]}), the label a letter"
    return (
        "the reader finds a letter, the label nothing" if label is None else "two different letters"
    )


def _entry(name: str, reply: ScoredReply) -> str:
    text = (
        "\n".join(f"    {line}" for line in reply.recorded.reply.strip().splitlines())
        or "    (empty)"
    )
    key = f", key {reply.key}" if reply.key else ""
    answer = reply.answer or f"nothing ({reply.reason})"
    return (
        f"{name} {reply.recorded.idx}: label {reply.recorded.label}, reader {answer}{key}\n{text}\n"
    )
