"""Points and boxes as answers: a reader of the places that a reply names, in any unit of
coordinates, their scorer (RefCOCO accuracy, points in masks, mean IoU, F1, mean average precision),
and questions about boxes from COCO's files or drawn scenes.

Not here: the parser of replies (`prompting.where`), detectors (`detection`), and a
choice between two given boxes (`make`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
