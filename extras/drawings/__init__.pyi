from .matrices import FigureAnalogy as FigureAnalogy, MatrixSolver as MatrixSolver
from .shapes import (
    ColoredShapeCounter as ColoredShapeCounter,
    MarkAskedShapes as MarkAskedShapes,
    OutlineCounter as OutlineCounter,
)
from .sheets import (
    DotLetterReader as DotLetterReader,
    PatternMatcher as PatternMatcher,
    ShapeGridReader as ShapeGridReader,
)
