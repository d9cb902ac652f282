from .base import Halo as Halo, Label as Label
from .chosen_mark import ChosenMark as ChosenMark
from .overlays import (
    DepthOverlay as DepthOverlay,
    MatchOverlay as MatchOverlay,
    ScalarOverlay as ScalarOverlay,
    SegmentTint as SegmentTint,
)
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
from .styles import (
    BlinkPaperStyle as BlinkPaperStyle,
    BlinkReleasedStyle as BlinkReleasedStyle,
    SomStyle as SomStyle,
    Vlm2Style as Vlm2Style,
    VPBenchPrompt as VPBenchPrompt,
    VPBenchStyle as VPBenchStyle,
)
