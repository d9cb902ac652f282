from .bootstrap import Estimate as Estimate, bootstrap_mean as bootstrap_mean
from .paired import (
    PairedComparison as PairedComparison,
    compare_paired as compare_paired,
    minimum_detectable as minimum_detectable,
)
from .significance import benjamini_hochberg as benjamini_hochberg, holm as holm
