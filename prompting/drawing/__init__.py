"""Private to `prompting`: what stages draw with.

`colors` names and chooses colours, `text` renders letters and plates, `placement` finds free places
for labels, numbers and insets. `shapes` paints in two ways: smooth edges of shapes, boxes and masks
at parts of pixels, for the markers, and whole pixels, for regions that must not share one
(set-of-mark, segments). Lines between two points are OpenCV's (`markers/overlays.py`). Not here:
stages, which users name; they are in other rooms.
"""

__all__: list[str] = []
