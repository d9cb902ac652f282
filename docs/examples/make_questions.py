"""Write twenty questions, which of four points is the brightest, into the folder `questions`."""

import json
from pathlib import Path

import numpy as np
from PIL import Image
from skimage import data

folder = Path("questions")
folder.mkdir(exist_ok=True)
lines = []
for number in range(20):
    rng = np.random.default_rng(number)
    name = ("astronaut", "coffee")[number % 2]
    photo = getattr(data, name)()
    left, top = rng.integers(0, photo.shape[1] - 320), rng.integers(0, photo.shape[0] - 240)
    crop = photo[top : top + 240, left : left + 320]
    Image.fromarray(crop).save(folder / f"{number:02}.png")
    corners = [(80, 60), (240, 60), (80, 180), (240, 180)]
    points = [(int(x + rng.integers(-40, 40)), int(y + rng.integers(-30, 30))) for x, y in corners]
    light = [crop[y - 2 : y + 3, x - 2 : x + 3].mean() for x, y in points]
    lines.append(
        {
            "id": f"{number:02}",
            "image": f"{number:02}.png",
            "question": "Which of the marked points is the brightest?",
            "choices": ["Point A", "Point B", "Point C", "Point D"],
            "answer": "ABCD"[int(np.argmax(light))],
            "marks": [
                {"label": label, "x": x, "y": y}
                for label, (x, y) in zip("ABCD", points, strict=True)
            ],
            "meta": {"photo": name},
        }
    )
(folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
