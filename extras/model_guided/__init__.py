"""Views and answers that the model itself guides: by its attention (ViCrop, dimmed views), by its
replies about each part of a picture (tree search, retrieved cells), and by how its likelihoods
change with the image (contrastive decoding).

Not here: regions from marks, detectors, maps and replies (`prompting.where`), and attention and
layers for analysis (`features`, `inside`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
