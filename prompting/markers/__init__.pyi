from .arrows import Arrows as Arrows
from .base import Halo as Halo, Label as Label
from .chosen_mark import ChosenMark as ChosenMark
from .outlines import Crosshairs as Crosshairs, Polygons as Polygons
from .points import Circles as Circles, Dots as Dots
from .regions import (
    Contours as Contours,
    Cover as Cover,
    Rectangles as Rectangles,
    Spotlight as Spotlight,
    Tint as Tint,
)
from .set_of_mark import SetOfMark as SetOfMark
