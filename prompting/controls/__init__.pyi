from .choices import PermuteChoices as PermuteChoices, PermuteLabels as PermuteLabels
from .crops import OracleCrop as OracleCrop, RandomCrop as RandomCrop
from .images import (
    BlankImage as BlankImage,
    NoImage as NoImage,
    OtherImage as OtherImage,
    RandomMarks as RandomMarks,
    ShufflePatches as ShufflePatches,
)
