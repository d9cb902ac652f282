from .base import Halo as Halo, Label as Label
from .chosen_mark import ChosenMark as ChosenMark
from .points import (
    Arrows as Arrows,
    Circles as Circles,
    Crosshairs as Crosshairs,
    Dots as Dots,
    Polygons as Polygons,
)
from .regions import (
    Contours as Contours,
    Cover as Cover,
    Rectangles as Rectangles,
    Spotlight as Spotlight,
    Tint as Tint,
)
from .set_of_mark import SetOfMark as SetOfMark
