"""The implementation of `looktwice score FILE`, which scores recorded replies by their labels or a
reader, lists the replies for which the two differ, and exports answers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from statistics import fmean
from string import ascii_uppercase
from textwrap import indent

from looktwice.eval.display.printable import make_file_names
from looktwice.eval.readers.claims import Weight, find_claims, split_sentences
from looktwice.eval.readers.clean import clean_text
from looktwice.eval.readers.mentions import find_tagged_letters, get_tagger
from looktwice.eval.readers.reader import build_reader
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.records import RunFolder, SampleRow, is_run, refuse_run_file
from looktwice.eval.replies import CHOICES, get_subtask_of_idx, load_answer_key
from looktwice.eval.scoring.metrics import ANSWERED_VERDICTS
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import UNJUDGED, Verdict
from looktwice.eval.tasks.base import TaskError
from looktwice.extras.logs.format import export_file, load_log
from looktwice.extras.logs.log import (
    UNSCORED,
    Cells,
    Fields,
    Log,
    NamedColumns,
    bracket_letter,
    find_doubts,
    make_rows,
)
from looktwice.extras.logs.own import (
    add_choices,
    check_keys,
    make_question_columns,
    make_row_reader,
    make_run_row,
    read_last_replies,
)
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.state import Stage

ABSENT, NOT_ASKED = "absent", "not asked"
"""The verdicts of samples without a reply: ABSENT in a file that should answer every item of the
key, which counts as wrong, and NOT_ASKED in a run."""
VALUED_VERDICTS = (Verdict.RIGHT, Verdict.WRONG, "")
"""The verdicts of replies whose recorded value counts even without a key; a graded reply has an
empty verdict."""


@dataclass(frozen=True)
class ScoredReplies:
    """The scored replies of one file, or of one contestant of a run, as rows of a log with the
    further columns `reason` and `detail`.

    `by_reader` is True if a reader parsed the answers; otherwise they are the recorded labels.
    `recorded_count` is the number of rows whose value comes from the file itself. `doubt` is the
    log's warning.
    """

    name: str
    rows: Sequence[Cells]
    by_reader: bool
    recorded_count: int = 0
    doubt: str = ""

    @property
    def missing_count(self) -> int:
        """The number of items in the key that have no reply in the file, or were not asked in the
        run."""
        return sum(row["verdict"] in (ABSENT, NOT_ASKED) for row in self.rows)

    @property
    def scorers(self) -> str:
        """The scorers, metrics or columns that the recorded values come from."""
        return ", ".join(filter(None, dict.fromkeys(row.get("scorer", "") for row in self.rows)))

    @property
    def labelled_rows(self) -> list[Cells]:
        """The rows that hold a recorded label."""
        return [row for row in self.rows if row.get("label")]

    @cached_property
    def values_by_subtask(self) -> Mapping[str, list[float]]:
        """The values of the samples with a key, by subtask; the value of a sample is the mean over
        its draws that did not fail.

        A sample whose draws all failed counts as 0; a subtask in which all samples failed is left
        out.
        """
        by_subtask = defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))
        for row in self.rows:
            has_value = row["key"] or row["verdict"] in VALUED_VERDICTS
            if has_value and row["verdict"] != NOT_ASKED and row["reason"] != UNJUDGED:
                draws = by_subtask[row["task"]][row["sample"]]
                draws += [] if row["verdict"] == Verdict.FAILED else [row["value"] or 0.0]
        return {
            subtask: [fmean(draws or [0.0]) for draws in samples.values()]
            for subtask, samples in by_subtask.items()
            if any(samples.values())
        }

    @property
    def answered_shares(self) -> list[float]:
        """The share of draws with an answer, for each sample; if labels are scored, missing samples
        count as 0."""
        without = {NOT_ASKED, ABSENT} if self.by_reader else {NOT_ASKED}
        answered, draws = (
            (*ANSWERED_VERDICTS, *VALUED_VERDICTS),
            defaultdict[tuple[str, str], list[bool]](list),
        )
        for row in self.rows:
            if row["verdict"] not in without:
                draws[row["task"], row["sample"]].append(row["verdict"] in answered)
        return [fmean(each) for each in draws.values()]

    @property
    def failed_count(self) -> int:
        """The number of samples whose draws all failed."""
        kinds = defaultdict[tuple[str, str], set[str]](set)
        for row in self.rows:
            kinds[row["task"], row["sample"]].add(row["verdict"])
        return sum(each == {Verdict.FAILED} for each in kinds.values())


def get_label(row: Cells) -> str:
    """Return the letter that the recorded label consists of, or begins with; "" if the label names
    no choice."""
    match = re.match(r"\(([A-Y])\)|([A-Y])\Z", row["label"])
    return match[1] or match[2] if match else ""


def load_replies(file: Path, columns: NamedColumns | None = None) -> list[Log]:
    """Read the recorded replies of a file in any log format: one log for each contestant, with the
    texts of the choices if known. Raises TaskError."""
    logs = load_log(file, columns or {})
    name = re.sub(r"\.(jsonl|tsv|xlsx|csv|parquet)$", "", file.name.removesuffix(".gz"))
    for number, log in enumerate(logs):
        raw = log.whole.rows.to_dict("records")
        rows = list(add_choices(file, raw))
        for row in rows:
            if row["choices"] and not re.fullmatch("[A-Z]", row["key"]):
                row["key"] = ""
        own, frame = name if len(logs) == 1 else log.name, make_rows(rows)
        logs[number] = replace(log, name=own, rows=frame, read_whole=None, doubt=check_keys(raw))
    return logs


def score_replies(
    log: Log, keys: Mapping[str, str] | None = None, reader: Stage | None = None
) -> ScoredReplies:
    """Score the replies of one file against the keys, by their recorded labels or by a reader.

    `keys` maps idx to "(X)"; if it is None, the rows' own keys are used. Without a reader, recorded
    labels count and replies without a key are left out. For rows without a label, the values
    recorded in the file count, unless `keys` is given, and `Robust` parses the remaining replies.
    Raises TaskError if no row has a key, or if a row cannot be scored.
    """
    rows, own_keys = log.rows.to_dict("records"), keys is None
    if keys is None:
        keys = {row["sample"]: row["key"] for row in rows if row["key"]}
    with_key = [row for row in rows if row["sample"] in keys or not keys]
    if not with_key:
        example = f"for example {rows[0]['sample']!r}; the key has {next(iter(keys))!r}"
        raise TaskError(f"{log.name}: none of its {len(rows)} items is in the key, {example}")
    labelled = any(row["label"] for row in with_key)
    as_recorded = own_keys and reader is None and not labelled
    if reader is None and not labelled:
        reader = Robust()
    read, replies, recorded = make_row_reader(reader), list[Fields](), 0
    for row in rows if reader else with_key:
        failed = row["verdict"] == Verdict.FAILED and not (labelled and reader is None)
        if failed or (as_recorded and row["verdict"] != UNSCORED):
            replies.append({**row, "reason": "", "detail": ""})
            recorded += not failed
            continue
        row["key"] = keys.get(row["sample"], "").strip("()")
        replies.append({**read(row), "scorer": ""})
        if replies[-1]["verdict"] == Verdict.FAILED:
            why = replies[-1]["detail"].strip().splitlines()[-1]
            raise TaskError(f"{log.name}: {row['sample']} cannot be scored: {why}")
    subtasks, present = {row["task"] for row in with_key}, {row["sample"] for row in with_key}
    absent = {"verdict": ABSENT, "value": 0.0, "answer": "", "reason": "empty"}
    for idx, key in keys.items():
        task = get_subtask_of_idx(idx)
        if task in subtasks and idx not in present:
            replies.append({**absent, "sample": idx, "task": task, "key": key.strip("()")})
    doubt = log.doubt if own_keys else ""
    return ScoredReplies(log.name, replies, reader is not None, recorded, doubt)


def score_run_replies(
    path: Path, keys: Mapping[str, str] | None, reader: Stage | None, plugins: Sequence[str]
) -> list[ScoredReplies]:
    """Score the replies of each contestant of a run; the names of contestants are made fit for file
    names.

    `keys` replaces the keys of the run. Raises RunError, and TaskError if a contestant was asked a
    question in several variants.
    """
    folder = RunFolder(path) if keys is None else _RunWithKeys(path, keys)
    replies, by_contestant = read_last_replies(folder), defaultdict[str, list[Fields]](list)
    for scores in score_run(folder, reader, plugins=plugins).points:
        for idx, sample in scores.samples.items():
            row = {**make_question_columns(sample), "verdict": NOT_ASKED, "answer": ""}
            if scored := scores.first(idx):
                row = make_run_row(scores, idx, scored, replies)
            row["task"] = get_subtask_of_idx(idx) or str(sample.meta.get("category") or "")
            by_contestant[scores.contestant].append(row)
    for contestant, rows in by_contestant.items():
        if len({row["sample"] for row in rows}) < len(rows):
            raise TaskError(
                f"{path}: {contestant!r} was asked the same questions in several variants; run"
                " each variant on its own"
            )
    return [
        ScoredReplies(re.sub(r"[^\w.=-]+", "_", contestant).strip("_"), rows, by_reader=True)
        for contestant, rows in by_contestant.items()
    ]


@dataclass(frozen=True)
class _RunWithKeys(RunFolder):
    """A run whose keys are replaced by those of a file; other samples have no key."""

    keys: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def samples_by_task(self) -> dict[str, Mapping[str, SampleRow]]:
        found, tasks = RunFolder(self.path).samples_by_task, dict[str, Mapping[str, SampleRow]]()
        ids = list(dict.fromkeys(chain.from_iterable(found.values())))
        if not self.keys.keys() & ids:
            example = f"for example {ids[0]!r}; the key has {next(iter(self.keys))!r}"
            raise TaskError(f"{self.path}: none of its {len(ids)} samples is in the key, {example}")
        for task, rows in found.items():
            answers = {name: self.keys.get(name, "").strip("()") or None for name in rows}
            tasks[task] = {name: replace(rows[name], answer=key) for name, key in answers.items()}
        return tasks


def report_replies(
    files: Sequence[Path],
    reader: str | None = None,
    key: Path | None = None,
    disagreements: Path | None = None,
    exports: Sequence[Path] = (),
    plugins: Sequence[str] = (),
    columns: NamedColumns | None = None,
) -> Iterator[str]:
    """Yield a line of figures per file, and one for all files together; write the list of
    disagreements if requested.

    Without a reader, the recorded labels are the answers, or the recorded values count; `Robust`
    parses the replies if neither is recorded, or if disagreements with the labels are requested.
    `columns` names columns of tables, as in `read_logs`. The file `key` maps idx to "(X)"; without
    it, the keys in the files count, unless they are hidden. A run folder counts as one file for
    each of its contestants, whose replies are parsed by the given reader or else by the reader in
    the run's configuration. `exports` are files to write the answers to, in the formats of their
    suffixes (see `format.FORMATS`); if there are several files of replies, the names of `exports`
    contain `{name}`. Raises TaskError, RunError and ConfigError.
    """
    stage = build_reader(reader, plugins) if reader else Robust() if disagreements else None
    keys = load_answer_key(key) if key is not None else None
    total = list[ScoredReplies]()
    names = Counter(file.name for file in files)
    for file in files:
        ran = is_run(file)
        contestants = score_run_replies(file, keys, stage, plugins) if ran else []
        for log in () if ran else load_replies(file, columns):
            if names[file.name] > 1:  # the folders distinguish them
                log = replace(log, name=f"{file.resolve().parent.name}/{log.name}")
            contestants.append(score_replies(log, keys, stage))
        alike = [path for path in exports if "{name}" not in str(path)]
        if alike and len(files) * len(contestants) > 1:
            many = f"{len(files)} files" if len(files) > 1 else f"{len(contestants)} contestants"
            raise TaskError(
                f"--export {alike[0]}: {many} need {{name}} in the path, such as out/{{name}}.json"
            )
        for scored in contestants:
            yield from _report_file(scored, exports)
        if ran and keys and (unused := _find_unused_keys(keys, contestants)):
            count = format_count(len(unused), "id")
            yield f"{file}: not in the run: {count} of {key}, such as {unused[0]!r}"
        total += contestants
    by_reader, count = any(scored.by_reader for scored in total), f"files={len(total)}"
    figures = _format_figures(total, by_reader)
    yield f"total: {', '.join([*figures, count] if by_reader else [count, *figures])}"
    if disagreements is not None:
        refuse_run_file(disagreements)
        text, number = list_disagreements(total)
        write_file(disagreements, text)
        yield f"disagreements: {number} in {disagreements}"


def _find_unused_keys(keys: Mapping[str, str], runs: Sequence[ScoredReplies]) -> list[str]:
    """Return the ids of an answer key that are not in a run, without those of other subtasks."""
    rows = list(chain.from_iterable(scored.rows for scored in runs))
    there, tasks = {row["sample"] for row in rows}, {"", *(row["task"] for row in rows)}
    return [idx for idx in keys if idx not in there and get_subtask_of_idx(idx) in tasks]


def _report_file(scored: ScoredReplies, exports: Sequence[Path]) -> Iterator[str]:
    """Yield the figures of one file, then export it."""
    parts = _format_figures([scored], scored.by_reader)
    subtasks = {row["task"] for row in scored.rows}
    if subtasks < CHOICES.keys():
        parts.append(f"subtasks={len(subtasks)}/{len(CHOICES)}")
    if scored.recorded_count:
        parts.append(f"as_recorded={scored.recorded_count}")
    if named := scored.scorers:
        parts.append(f"scorer={named}")
    if scored.failed_count:
        parts.append(f"failed={scored.failed_count}")
    if scored.missing_count:
        parts.append(f"missing={scored.missing_count}")
    yield f"{scored.name}: {', '.join(parts)}"
    failed = (row for row in scored.rows if row["verdict"] == Verdict.FAILED and row["detail"])
    if row := next(failed, None):
        yield f"{scored.name}: {row['sample']} failed: {row['detail'].strip().splitlines()[-1]}"
    rows = make_rows([row for row in scored.rows if row["verdict"] != ABSENT])
    yield from find_doubts(Log(scored.name, rows, doubt=scored.doubt))
    log = Log(scored.name, rows.drop_duplicates(["task", "sample"]))  # the first of several draws
    for path in exports:
        out = Path(str(path).replace("{name}", make_file_names([scored.name])[scored.name]))
        yield f"exported: {export_file(log, out)} in {out}"


def _format_figures(files: Sequence[ScoredReplies], by_reader: bool) -> list[str]:
    """Format the figures of one or several files, in percent: the accuracy over all items, and
    `macro`, the mean of the files' own macro accuracies.

    A file's macro accuracy is the mean over subtasks, as in BLINK's total; the accuracy over all
    items is called `micro` if labels are scored.
    """
    readable, values = list[float](), list[float]()
    agreed, macros = list[bool](), list[float]()
    for scored in files:
        readable += scored.answered_shares
        values += chain(*scored.values_by_subtask.values())
        agreed += [row["answer"] == get_label(row) for row in scored.labelled_rows]
        if scored.values_by_subtask:
            macros.append(fmean(map(fmean, scored.values_by_subtask.values())))
    named: dict[str, Sequence[float]] = {"macro": macros, "micro": values, "coverage": readable}
    if by_reader:
        named = {"agreement": agreed, "accuracy": values, "coverage": readable, "macro": macros}
    percent = "%" if by_reader else ""
    figures = [
        f"{name}={100 * fmean(shares or [0]):.2f}{percent}"
        for name, shares in named.items()
        if shares or name == "coverage"
    ]
    count = [f"scored={len(values)}"] if by_reader and values else []
    return [f"n={len(readable)}", *figures, *count]


def list_disagreements(files: Sequence[ScoredReplies]) -> tuple[str, int]:
    """List the replies for which the reader and the recorded label differ, by kind; return the text
    and the number of replies.

    The most frequent kinds come first; kinds in which the reply itself proves the label wrong are
    marked.
    """
    kinds = defaultdict[str, list[str]](list)
    for scored in files:
        for row in scored.labelled_rows:
            label, answer = get_label(row), row["answer"]
            if label == answer:
                continue
            reason = row["detail"] or row["reason"]
            if proof := disprove_label(row, label, answer):
                kind = re.sub(r"\b[A-Z]\b", "X", f"the label is proved wrong ({proof})")
            elif not answer:
                kind = (
                    f"the label is a letter, but the reader finds none ({reason.partition(':')[0]})"
                )
            elif label:
                kind = "two different letters"
            else:
                kind = "the reader finds a letter, but the label has none"
            shown = bracket_letter(answer) if answer else f"nothing ({reason})"
            key = f", key {bracket_letter(row['key'])}" if row["key"] else ""
            about = f"{scored.name} {row['sample']}: label {row['label']}, reader {shown}{key}"
            words = indent(row["reply"].strip() or "(empty)", "    ", lambda line: True)
            kinds[kind].append(f"{about}\n{words}\n")
    ordered = sorted(kinds.items(), key=lambda pair: -len(pair[1]))
    blocks = [f"# {kind}: {len(entries)}\n\n" + "\n".join(entries) for kind, entries in ordered]
    return "\n".join(blocks), sum(map(len, kinds.values()))


def disprove_label(row: Cells, label: str, answer: str) -> str:
    """Explain why the label (a letter, or "" for none) cannot be the answer of a row's reply; ""
    if this is not proved.

    Only clear cases count: a label that is not among the letters of the choices; no label for a
    reply that is a bare letter; a reply that names no choice, or only one other choice; and a reply
    that plainly claims one other choice and never supports the label's choice.
    """
    choices = row["choices"]
    letters = ascii_uppercase[: len(choices)]
    if label and label not in letters:
        return f"the label is {label}, but the choices are {letters[0]} to {letters[-1]}"
    text = clean_text(row["reply"])
    if not label:
        only = answer and text.strip("() .") == answer
        return f"the reply is {answer} and nothing more" if only else ""
    tagged = get_tagger(choices)(text)
    mentioned = set(find_tagged_letters(tagged))
    if not mentioned and all(choices) and "yes" not in choices:  # a statement may mean yes or no
        return "the reply names no choice"
    if answer in ("", label):
        return ""
    if mentioned == {answer}:
        return f"the reply names only {answer}"
    supported, plainly = set[str](), set[str]()
    for sentence in split_sentences(tagged):
        for claim in find_claims(sentence, letters, row["task"]):
            if not claim.is_against:
                supported.add(claim.letter)
                plainly |= {claim.letter} if claim.weight >= Weight.PREFERRED else set()
    proved = plainly == {answer} and label not in supported
    return f"the reply claims {answer} and never {label}" if proved else ""
