from .axes import Axes as Axes, GridWords as GridWords
from .grids import DotGrid as DotGrid, RuledGrid as RuledGrid
