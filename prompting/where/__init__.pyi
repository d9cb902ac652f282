from .attention import ViCrop as ViCrop
from .places import Places as Places, Where as Where
from .search import Rules as Rules, TreeSearch as TreeSearch
from .sources import (
    Claimed as Claimed,
    Detected as Detected,
    Given as Given,
    InCells as InCells,
    OnMarks as OnMarks,
)
from .windows import (
    Elsewhere as Elsewhere,
    Segmented as Segmented,
    Sized as Sized,
    Windows as Windows,
)
