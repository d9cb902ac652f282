"""Views and answers that the model itself guides: where its attention lies (ViCrop, dimmed views),
what it says about each part of a picture (tree search, retrieved cells), and how its likelihoods
change with the image (contrast decoding).

Not here: regions from marks, detectors, maps and replies (`prompting.where`), and maps of attention
for analysis (`features`, `inside`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
