from .axes import Axes as Axes
from .grids import DotGrid as DotGrid, RuledGrid as RuledGrid
from .words import GridWords as GridWords
