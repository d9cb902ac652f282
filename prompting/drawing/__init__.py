"""Private to `prompting`: the drawing functions that stages use.

`colors` names and chooses colours, `text` renders letters and plates. `placement` finds free places
for labels, and `free_areas` for numbers and insets. `shapes` and `lines` paint with smooth edges;
`regions` are boxes and masks in whole pixels, for stages in which no two regions may share a pixel
(set-of-mark, segments). Not here: the stages that users name, which are in other rooms.
"""

__all__: list[str] = []
