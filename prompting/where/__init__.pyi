from .places import Places as Places, Where as Where
from .sources import (
    Claimed as Claimed,
    Detected as Detected,
    Given as Given,
    InCells as InCells,
    OnMarks as OnMarks,
)
from .windows import (
    BestCells as BestCells,
    Elsewhere as Elsewhere,
    Segmented as Segmented,
    Sized as Sized,
    Windows as Windows,
)
