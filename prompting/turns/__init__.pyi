from .ask import Ask as Ask, History as History
from .blind import CaptionThenAnswer as CaptionThenAnswer, RedrawThenAnswer as RedrawThenAnswer
from .few_shot import Example as Example, FewShot as FewShot
from .look_again import Reperceive as Reperceive, Verify as Verify, ZoomOnClaim as ZoomOnClaim
from .vote import Vote as Vote
