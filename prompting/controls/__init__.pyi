from .choices import PermuteChoices as PermuteChoices, PermuteLabels as PermuteLabels
from .images import (
    BlankImage as BlankImage,
    NoImage as NoImage,
    Noise as Noise,
    OracleCrop as OracleCrop,
    OtherImage as OtherImage,
    RandomCrop as RandomCrop,
    RandomMarks as RandomMarks,
    ShufflePatches as ShufflePatches,
)
