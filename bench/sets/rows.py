"""The comparisons, one or more per set: our score and that of the authors' code, reply by reply."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from bench.sets import replies, source
from bench.sets.source import Source
from looktwice.eval.readers import Robust
from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.verdict import Scorer, Verdict
from looktwice.extras.judging.passes import JudgeCase
from looktwice.extras.sets import PointScorer, SetScorer, VisFactorScorer
from looktwice.extras.sets.key_judge import parse_key_verdict
from looktwice.extras.sets.readers import read_boxed
from looktwice.extras.sets.rules import is_exact_match, score_biased
from looktwice.pipelines.marks import Mask
from looktwice.pipelines.model import Message
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State

Pairs = Iterator[tuple[object, float, float | None]]
"""A reply, our value, and that of the authors' code; None where it fails."""
SIDES = 64, 48


@dataclass(frozen=True)
class Comparison:
    """A comparison: the set, the authors' code, the compared values, and the pairs of them."""

    name: str
    source: Source
    what: str
    pairs: Callable[[Path], Pairs]


@dataclass(frozen=True)
class Result:
    """The number of compared replies, the largest difference of their values, and the number of
    replies at which the authors' code fails (ours counts these as unreadable)."""

    count: int
    largest: float
    failures: int
    first: str = ""


def compare(row: Comparison, clones: Path) -> Result:
    """Compare every reply."""
    count, largest, failures, first = 0, 0.0, 0, ""
    for reply, ours, theirs in row.pairs(clones):
        count += 1
        if theirs is None:
            failures += 1
            theirs = 0.0
        if abs(ours - theirs) > largest:
            first = f"{reply!r}: ours {ours}, theirs {theirs}"
        largest = max(largest, abs(ours - theirs))
    return Result(count, largest, failures, first)


def make_row(key: str, meta: Mapping[str, Any] = {}, truth: Mapping[str, Any] = {}) -> SampleRow:
    """Return a line of samples.jsonl."""
    sample = {"id": "s", "question": "Q", "images": [], "choices": [], "marks": [], "meta": meta}
    return SampleRow("task", "sha", key, sample, truth)


def value_of(scorer: Scorer, reply: str, row: SampleRow) -> float:
    """Return our score of a reply."""
    score = scorer.compare(reply, row)
    assert score is not None
    return 0.0 if score.verdict is Verdict.UNREADABLE else score.value


def boxes(clones: Path) -> Pairs:
    regex = import_module("regex")
    theirs = source.BABY_VISION.run(clones, ["extract_boxed_answer"], regex=regex)
    for reply in replies.texts():
        yield reply, float(read_boxed(reply) == theirs.extract_boxed_answer(reply)), 1.0


def recorded_boxes(clones: Path) -> Pairs:
    """Yield the replies that the authors published, with their judge's verdicts."""
    scores = source.BABY_SCORES.run(
        clones, ["compute_avg_subscores_for_Type_and_Subtype", "type_match"], open=open
    )
    for run in (1, 2, 3):
        text = source.BABY_SCORES.text(
            clones, f"babyvision_eval/results/model_results_run_{run}.json"
        )
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(text)
            file.flush()
            overall, _, _ = scores.compute_avg_subscores_for_Type_and_Subtype(file.name)
        ours = []
        for row in json.loads(text):
            found, theirs = read_boxed(row["ModelResult"] or ""), row["ExtractedAnswer"]
            yield row["Id"], float(found == theirs), 1.0
            said = str(bool(row["LLMJudgeResult"]))
            ours.append(parse_key_verdict(said, _case(row["GroundTruth"])).scores["match"])
        yield f"run {run}", float(np.mean(ours)), float(overall)


def _case(key: str) -> JudgeCase:
    return JudgeCase(Sample("s", "Q"), key, "", SimpleNamespace(answer=None))  # type: ignore[arg-type]


def judged(clones: Path) -> Pairs:
    theirs = source.PERCEPTION.run(clones, ["_decode_judge"])
    for words in replies.verdicts():
        ok, _ = theirs._decode_judge(words)
        if "[reason]" in words and "[judge]" in words:  # otherwise they always return False
            yield words, parse_key_verdict(words, _case("7")).scores.get("match", 0.0), float(ok)


def omni_spatial(kind: str) -> Callable[[Path], Pairs]:
    """Compare one of the authors' ways to read a reply."""
    rules = {"re": "omni_spatial", "direct": "omni_spatial_direct", "json": "omni_spatial_json"}

    def pairs(clones: Path) -> Pairs:
        said = [""]
        opened = SimpleNamespace(convert=lambda mode: None)
        theirs = source.OMNI_SPATIAL.run(
            clones,
            ["process_info"],
            os=os,
            argparse=SimpleNamespace(Namespace=object),
            OpenAI=object,
            Image=SimpleNamespace(open=lambda path: opened),
            SYS_PROMPTS={"none": ""},
            FORMAT_PROMPTS={kind: ""},
            vqa_parsing=lambda *_, **__: said[0],
        )
        args = SimpleNamespace(
            model_id="", prompt_type="none", eval_type=kind, dataset_path="", blind=False
        )
        info = {"id": "1_0", "question": "Q", "options": list("abcd"), "repeat": 0}
        info |= {"task_type": "Complex_Logic", "sub_task_type": "Geometric_Reasoning"}
        scorer = SetScorer(rule=rules[kind])
        for reply, key in replies.letters():
            said[0] = reply
            full = {**info, "answer": "ABCD".index(key)}
            right, *_ = theirs.process_info(full, args=args, client=None)
            yield (reply, key), value_of(scorer, reply, make_row(key)), float(right)

    return pairs


def vis_factor(clones: Path) -> Pairs:
    asked = [*replies.visual_tests()]
    frame = pd.DataFrame(asked, columns=["category_id", "additional", "answer", "prediction"])
    frame["eval_index"] = [number // 2 for number in range(len(frame))]
    kept = {}
    with tempfile.TemporaryDirectory() as folder:
        frame["correct"] = False
        theirs = source.VIS_FACTOR.run(
            clones, ["VisFactor"], ImageBaseDataset=object, load=lambda path: frame, open=open
        )
        kept = theirs.VisFactor().evaluate(f"{folder}/x.xlsx")
    scorer, right = VisFactorScorer(), dict[tuple[str, int], list[bool]]()
    for number, (test, additional, key, reply) in enumerate(asked):
        row = make_row(key, {"category_id": test, "additional": additional})
        ours = value_of(scorer, reply, row)
        right.setdefault((test, number // 2), []).append(bool(ours))
        yield (test, key, reply), ours, float(frame.at[number, "correct"])
    tests = {}
    for test in dict.fromkeys(test for test, _ in right):
        tests[test] = np.mean([all(each) for (name, _), each in right.items() if name == test])
        yield test, float(tests[test]), float(kept[test])
    yield "ALL", float(np.mean([*tests.values()])), float(kept["ALL"])


def open_image(path: str | Path) -> Image.Image:
    """Open an image and close its file, which the authors' code leaves open."""
    with Image.open(path) as image:
        return image.copy()


def make_mask() -> Any:
    """Return a mask with two parts, in an image of 64 x 48 pixels."""
    mask = np.zeros(SIDES[::-1], bool)
    mask[8:30, 10:40] = True
    mask[35:48, 50:64] = True
    return mask


def place_row(category: str = "", count: int = 0) -> SampleRow:
    """Return the row of a question whose answer is this mask."""
    plain = Mask("", make_mask()).to_dict()
    places = [{"mask": {name: plain[name] for name in ("size", "counts")}}]
    truth = {"places": places} | ({"count": count} if count else {})
    return make_row("a point in the mask", {"category": category}, truth)


def ref_spatial(form: str, names: Sequence[str], **more: Any) -> Callable[[Path], Pairs]:
    """Compare one of the authors' parsers, with their accuracy in a mask."""

    def pairs(clones: Path) -> Pairs:
        wanted = [*names, "compute_accuracy"]
        theirs = source.ROBO_REFER.run(
            clones, wanted, os=os, Image=Image, tqdm=lambda listed: listed
        )
        parse = getattr(theirs, names[0])
        scorer, row = PointScorer(form=form), place_row()
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            task = Path("RefSpatial-Bench/Location")
            task.mkdir(parents=True)
            Image.fromarray((make_mask() * 255).astype(np.uint8)).save(task / "m.png")
            for reply in replies.points(whole_boxes=form == "pixels"):
                answer: dict[str, Any] = {"text": reply, "mask_path": "m.png", "question_id": 0}
                try:
                    theirs.compute_accuracy(
                        [answer], "Location", lambda text, w, h: parse(text, w, h, **more)
                    )
                except Exception:  # their script ends here
                    answer.pop("accuracy", None)
                yield reply, value_of(scorer, reply, row), answer.get("accuracy")

    return pairs


def point_arena(clones: Path) -> Pairs:
    """Run the authors' evaluation of an OpenAI model whose replies are constructed."""
    said, queue = [*replies.points(1, 300)], list[str]()
    message = SimpleNamespace(content="")

    def create(**_: Any) -> Any:
        message.content = queue.pop(0)
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])

    names = ["evaluate_model", "call_openai", "load_mask", "is_point_in_mask"]
    names += ["get_original_points_info", "print_complete_prompt"]
    chat = SimpleNamespace(completions=SimpleNamespace(create=create))
    import base64

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        theirs = source.POINT_ARENA.run(
            clones,
            names,
            os=os,
            base64=base64,
            open=open,
            Path=Path,
            Image=SimpleNamespace(open=open_image),
            client=SimpleNamespace(chat=chat),
            IMAGES_DIR=Path("images"),
            MASKS_DIR=Path("masks"),
            POINT_ON_MASK_DIR=Path("."),
            IMAGE_POINTS_MAP={},
            visualize_points_on_mask=lambda *_: None,
        )
        Path("masks").mkdir()
        Image.fromarray((make_mask() * 255).astype(np.uint8)).save("masks/m.png")
        scorer = PointScorer(form="point_objects", count="all")
        for category, count in (("spatial", 0), ("counting", 2), ("counting", 1)):
            Path("images", category).mkdir(parents=True, exist_ok=True)
            data = []
            for number, _ in enumerate(said):
                name = f"{count}_{number}.png"
                Image.new("RGB", SIDES).save(Path("images", category, name))
                item = {"image_filename": name, "mask_filename": "m.png", "user_input": "Point"}
                data.append({**item, "category": category, **({"count": count} if count else {})})
            Path("data.json").write_text(pd.Series(data).to_json(orient="records"))
            queue[:] = said
            results = theirs.evaluate_model("gpt-4o", "openai", resume=False)
            row = place_row(category, count)
            for reply, detail in zip(said, results["details"], strict=True):
                yield reply, value_of(scorer, reply, row), float(detail["success"])


def lmms_points(clones: Path) -> Pairs:
    theirs = source.LMMS_POINTS.run(clones, ["_text_to_points", "_binary_score"])
    mask = make_mask().astype(np.int32)
    scorer = PointScorer(form="guessed", count="all")
    for reply in replies.points(2):
        found = theirs._text_to_points(reply, *SIDES)
        right = theirs._binary_score(found, mask, "spatial", 0)
        yield reply, value_of(scorer, reply, place_row("spatial")), float(right)


def qwen_points(clones: Path) -> Pairs:
    theirs = source.QWEN_POINTS.run(clones, ["parse_point2d"])
    refer = Source(
        "EvolvingLMMs-Lab/lmms-eval", "75571cf", "lmms_eval/tasks/refspatial/utils.py"
    ).run(clones, ["_refspatial_acc"])
    mask = make_mask().astype(int)
    scorer, row = PointScorer(form="thousandths"), place_row()
    for reply in replies.points(3):
        found = theirs.parse_point2d(reply, *SIDES)
        yield reply, value_of(scorer, reply, row), float(refer._refspatial_acc(mask, found))


def vis_res(clones: Path) -> Pairs:
    theirs = source.VIS_RES.run(clones, ["vp_process_results"])
    scorer = SetScorer(rule="vis_res")
    for reply, key in replies.letters():
        right = theirs.vp_process_results({"answer": key, "id": 0}, [reply])["exact_match"]
        yield (reply, key), value_of(scorer, reply, make_row(key)), float(right)


def erqa(clones: Path) -> Pairs:
    asked = [*replies.letters()]
    frame = pd.DataFrame(asked, columns=["prediction", "answer"])
    frame["index"], frame["category"] = range(len(frame)), "Other"
    kept = dict[str, Any]()
    theirs = source.ERQA.run(
        clones,
        ["ERQADataset"],
        ImageVQADataset=object,
        load=lambda path: frame,
        dump=lambda data, path: kept.setdefault(path, data),
        logger=SimpleNamespace(info=lambda words: None),
        get_intermediate_file_path=lambda path, kind: kind,
        pd=pd,
    )
    theirs.ERQADataset().evaluate("x")
    scorer = SetScorer(rule="erqa_vlmevalkit")
    for (reply, key), right in zip(asked, kept["_detail"]["correct"], strict=True):
        yield (reply, key), value_of(scorer, reply, make_row(key)), float(right)


def biased(clones: Path) -> Pairs:
    theirs = source.BIASED.run(
        clones, ["vlms_are_biased_process_results"], defaultdict=dict, List=list
    )
    for reply, key, bias in replies.biased():
        doc = {"ground_truth": key, "expected_bias": bias}
        scores = theirs.vlms_are_biased_process_results(doc, [reply])
        ours = score_biased(reply, key, bias)
        yield (reply, key, bias), float(ours[0]), scores["accuracy"]
        yield (reply, key, bias), float(ours[1]), scores["bias_ratio"]


def zero_bench(clones: Path) -> Pairs:
    names = ["_normalize_text", "_to_decimal", "_is_exact_match"]
    theirs = source.ZERO_BENCH.run(
        clones, names, Decimal=Decimal, InvalidOperation=InvalidOperation
    )
    for reply, key, _ in replies.biased():
        yield (
            (reply, key),
            float(is_exact_match(reply, key)),
            float(theirs._is_exact_match(reply, key)),
        )


def robust_letters(clones: Path) -> Pairs:
    """Compare the readings of Robust with those of the toolkit, where the toolkit reads a letter;
    ours differ on purpose where a reply takes an answer back."""
    theirs = source.LETTERS.run(
        clones, ["ZW_RE", "TAGGED_ANSWER_BLOCK", "can_match_option", "NUMERIC_PATTERN"]
    )
    sample = Sample("s", "Which?", (), tuple("ABCD"))
    for reply, key in replies.letters():
        found = theirs.can_match_option(reply)
        if found in (False, None, "E"):
            continue
        state = State(sample, (), "").replace(
            messages=(Message("user", ("Q",)), Message("assistant", (reply,)))
        )
        answer = Robust().read_masked(state).answer
        yield (reply, key), float(answer == key), float(found == key)


COMPARISONS = (
    Comparison("BabyVision", source.BABY_VISION, "boxed answers", boxes),
    Comparison("BabyVision", source.BABY_SCORES, "published replies, scores", recorded_boxes),
    Comparison("PerceptionBench", source.PERCEPTION, "verdicts of a judge", judged),
    Comparison("OmniSpatial re", source.OMNI_SPATIAL, "replies", omni_spatial("re")),
    Comparison("OmniSpatial direct", source.OMNI_SPATIAL, "replies", omni_spatial("direct")),
    Comparison("OmniSpatial json", source.OMNI_SPATIAL, "replies", omni_spatial("json")),
    Comparison("VisFactor", source.VIS_FACTOR, "replies, items, mean", vis_factor),
    Comparison(
        "RefSpatial tuples", source.ROBO_REFER, "replies", ref_spatial("tuples", ["text2pts"])
    ),
    Comparison(
        "RefSpatial pixels",
        source.ROBO_REFER,
        "replies",
        ref_spatial("pixels", ["text2pts"], is_absolute=True),
    ),
    Comparison("RefSpatial molmo", source.ROBO_REFER, "replies", ref_spatial("molmo", ["xml2pts"])),
    Comparison(
        "RefSpatial gemini", source.ROBO_REFER, "replies", ref_spatial("gemini", ["json2pts"])
    ),
    Comparison("RefSpatial thousandths", source.QWEN_POINTS, "replies", qwen_points),
    Comparison("Point-Bench", source.POINT_ARENA, "replies", point_arena),
    Comparison("Point-Bench guessed", source.LMMS_POINTS, "replies", lmms_points),
    Comparison("VisRes", source.VIS_RES, "replies", vis_res),
    Comparison("ERQA", source.ERQA, "replies", erqa),
    Comparison("VLMs Are Biased", source.BIASED, "replies, both metrics", biased),
    Comparison("ZeroBench", source.ZERO_BENCH, "replies", zero_bench),
    Comparison("Spatial-DISE", source.LETTERS, "letters that the code reads", robust_letters),
)
