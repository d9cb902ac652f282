from .regions import Felzenszwalb as Felzenszwalb, Slic as Slic, U2Net as U2Net
from .sam import SAM as SAM, SegmentEverything as SegmentEverything
from .sam3 import SAM3 as SAM3, GroundedSAM as GroundedSAM
