from .sam import SAM as SAM, SegmentEverything as SegmentEverything
from .sam3 import SAM3 as SAM3, GroundedSAM as GroundedSAM
from .u2net import U2Net as U2Net
