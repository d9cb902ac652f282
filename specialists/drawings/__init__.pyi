from .counting import ColoredShapeCounter as ColoredShapeCounter, OutlineCounter as OutlineCounter
from .dot_letters import LetterReader as LetterReader
from .grids import GridReader as GridReader
from .patterns import PatternMatcher as PatternMatcher
