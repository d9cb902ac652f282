"""Private to `prompting`: the drawing functions that stages use.

`colors` names and chooses colours, `text` renders letters and plates, and `placement` finds free
places for labels, numbers and insets. `shapes` paints in two ways: with smooth edges, for the
shapes, boxes and masks of markers, and in whole pixels, for regions that must not share a pixel
(set-of-mark, segments).

Not here: stages, which users name; they are in other rooms.
"""

__all__: list[str] = []
