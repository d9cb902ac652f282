from .dot_letters import DotLetterReader as DotLetterReader
from .patterns import PatternMatcher as PatternMatcher
from .shape_counting import (
    ColoredShapeCounter as ColoredShapeCounter,
    MarkAskedShapes as MarkAskedShapes,
    OutlineCounter as OutlineCounter,
)
from .shape_grids import ShapeGridReader as ShapeGridReader
