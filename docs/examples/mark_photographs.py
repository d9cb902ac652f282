"""Write questions about the photographs in a folder: `python mark_photographs.py FOLDER [PAIRS]`.

Each asks which of two random points is higher up, so nobody has to label anything. FOLDER gets a
file `samples.jsonl` with PAIRS questions for each photograph, by default seven.
"""

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

SUFFIXES = (".jpeg", ".jpg", ".png", ".webp")
QUESTION = "Which of the two marked things is higher up in the image, A or B?"
CHOICES = ["A", "B", "they are equally high up"]


def write_questions(folder: Path, pairs: int = 7) -> int:
    """Write `samples.jsonl` into a folder of photographs; return the number of questions."""
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    lines = [ask(file, number) for file in files for number in range(pairs)]
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return len(lines)


def ask(file: Path, number: int) -> dict[str, object]:
    """Ask about a pair of points that are a fifth of the photograph's height apart or more."""
    with Image.open(file) as image:
        width, height = ImageOps.exif_transpose(image).size  # as looktwice shows it
    rng = np.random.default_rng([number, *file.stem.encode()])
    while True:
        (x, y), (u, v) = rng.uniform(0.12, 0.88, (2, 2)) * (width, height)
        if abs(y - v) >= height / 5:
            break
    return {
        "id": f"{file.stem}-{number}",
        "image": file.name,
        "question": QUESTION,
        "choices": CHOICES,
        "answer": "A" if y < v else "B",
        "marks": [
            {"label": "A", "x": round(x), "y": round(y)},
            {"label": "B", "x": round(u), "y": round(v)},
        ],
        "meta": {"photo": file.stem},
    }


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    count = write_questions(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    sys.stdout.write(f"{count} questions in {sys.argv[1]}/samples.jsonl\n")
