from .ask import Ask as Ask, FewShot as FewShot, History as History
from .blind import CaptionThenAnswer as CaptionThenAnswer, RedrawThenAnswer as RedrawThenAnswer
from .confidence import When as When
from .contrast import ContrastAnswer as ContrastAnswer
from .repeat import (
    Reperceive as Reperceive,
    Verify as Verify,
    Vote as Vote,
    ZoomOnClaim as ZoomOnClaim,
)
