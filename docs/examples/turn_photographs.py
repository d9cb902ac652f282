"""Write questions about turned photographs: `python turn_photographs.py PHOTOS OUT [DEGREES]`.

Each asks which point of a turned copy is the point REF of the photograph. The copy is made here, so
nobody has to label anything. DEGREES is 40 by default; a photograph gives up to three questions.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

SUFFIXES = (".jpeg", ".jpg", ".png", ".webp")
QUESTION = (
    "Which point on the second image shows the same spot as the point REF on the first image?"
)
LONGEST = 640  # pixels of the longer side of both images
APART = 32  # pixels between two points, and between a point and the border
QUESTIONS = 3


def write_questions(photos: Path, out: Path, degrees: float = 40) -> int:
    """Write both images of each question, and `samples.jsonl`; return the number of questions."""
    out.mkdir(parents=True, exist_ok=True)
    files = sorted(file for file in photos.iterdir() if file.suffix.lower() in SUFFIXES)
    lines = [line for file in files for line in ask(file, out, degrees)]
    (out / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return len(lines)


def ask(file: Path, out: Path, degrees: float) -> Iterator[dict[str, object]]:
    """Yield the questions about a photograph: none if it has fewer than four corners."""
    with Image.open(file) as opened:
        image = ImageOps.exif_transpose(opened).convert("RGB")
    image.thumbnail((LONGEST, LONGEST))
    rng = np.random.default_rng([*file.stem.encode()])
    center = image.width / 2, image.height / 2
    turn = cv2.getRotationMatrix2D(center, float(rng.choice([-1, 1])) * degrees, 1)
    pixels = np.asarray(image)
    turned = cv2.warpAffine(pixels, turn, image.size, borderMode=cv2.BORDER_REPLICATE)
    names = [f"{file.stem}-1.png", f"{file.stem}-2.png"]
    for name, shown in zip(names, (pixels, turned), strict=True):
        Image.fromarray(np.asarray(shown)).save(out / name)
    points = find_points(pixels, turn)
    for number, first in enumerate(range(0, len(points) - 3, 4)):
        order = rng.permutation(4)
        landed = (points[first : first + 4] @ turn[:, :2].T + turn[:, 2])[order]
        places = [("REF", points[first], 0), *((*at, 1) for at in zip("ABCD", landed, strict=True))]
        yield {
            "id": f"{file.stem}-{number}",
            "images": names,
            "question": QUESTION,
            "choices": [f"Point {letter}" for letter in "ABCD"],
            "answer": "ABCD"[int(np.flatnonzero(order == 0)[0])],
            "marks": [
                {"label": label, "x": round(float(at[0])), "y": round(float(at[1])), "image": image}
                for label, at, image in places
            ],
        }


def find_points(pixels: NDArray[np.uint8], turn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return up to twelve corners (n, 2) that both images show, apart from each other."""
    gray = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    corners = cv2.goodFeaturesToTrack(gray, 1000, 0.01, APART)
    points = np.zeros((0, 2)) if corners is None else corners.reshape(-1, 2).astype(float)
    both = np.stack([points, points @ turn[:, :2].T + turn[:, 2]])
    most = np.array([pixels.shape[1], pixels.shape[0]]) - APART
    return points[((both > APART) & (both < most)).all(axis=(0, 2))][: 4 * QUESTIONS]


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    count = write_questions(Path(sys.argv[1]), Path(sys.argv[2]), *map(float, sys.argv[3:]))
    sys.stdout.write(f"{count} questions in {sys.argv[2]}/samples.jsonl\n")
