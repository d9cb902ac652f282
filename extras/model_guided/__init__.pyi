from .attention import ViCrop as ViCrop
from .contrast import ContrastAnswer as ContrastAnswer
from .dimmed import Dimmed as Dimmed
from .retrieved import RetrievedCrops as RetrievedCrops
from .search import AskedCells as AskedCells, Rules as Rules, TreeSearch as TreeSearch
