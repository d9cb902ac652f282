from .ask import Ask as Ask, History as History
from .blind import CaptionThenAnswer as CaptionThenAnswer, RedrawThenAnswer as RedrawThenAnswer
from .few_shot import FewShot as FewShot
from .repeat import (
    Reperceive as Reperceive,
    Verify as Verify,
    Vote as Vote,
    When as When,
    ZoomOnClaim as ZoomOnClaim,
)
