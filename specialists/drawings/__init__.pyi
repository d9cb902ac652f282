from .dot_letters import DotLetterReader as DotLetterReader
from .shapes import (
    ColoredShapeCounter as ColoredShapeCounter,
    MarkAskedShapes as MarkAskedShapes,
    OutlineCounter as OutlineCounter,
)
from .sheets import PatternMatcher as PatternMatcher, ShapeGridReader as ShapeGridReader
