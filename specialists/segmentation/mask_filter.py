"""Which of many masks are worth keeping."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MaskFilter:
    """Which of many masks are worth keeping, with the defaults of Kirillov et al. (ICCV 2023, appendix B).

    A mask is kept where its predicted IoU is above `iou` and its `stability` above that: the IoU of the mask with
    itself when the logits are cut one higher and one lower. Of masks whose boxes overlap by more than `overlap` IoU
    the surest stays. `smallest` is the least share of the image that a mask covers. Of more than `most` the surest
    are kept. SAM 2 predicts lower: its authors cut at an `iou` of 0.8.
    """

    iou: float = 0.88
    stability: float = 0.95
    overlap: float = 0.7
    smallest: float = 0.0
    most: int = 64

    def __post_init__(self) -> None:
        shares = (self.iou, self.stability, self.overlap, self.smallest)
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError(f"iou, stability, overlap and smallest lie in 0..1, found {shares}")
        if self.most < 1:
            raise ValueError(f"most is 1 mask or more, found {self.most}")
