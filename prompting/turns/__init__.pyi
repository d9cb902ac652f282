from .ask import Ask as Ask, History as History
from .blind import CaptionThenAnswer as CaptionThenAnswer, RedrawThenAnswer as RedrawThenAnswer
from .few_shot import FewShot as FewShot
from .look_again import Reperceive as Reperceive, Verify as Verify, ZoomOnClaim as ZoomOnClaim
from .vote import Vote as Vote
