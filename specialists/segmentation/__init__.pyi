from .grounded_sam import GroundedSAM as GroundedSAM
from .sam import SAM as SAM, SegmentEverything as SegmentEverything
from .superpixels import Felzenszwalb as Felzenszwalb, Slic as Slic
from .u2net import U2Net as U2Net
