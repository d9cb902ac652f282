from .agreement import cohens_kappa as cohens_kappa, fleiss_kappa as fleiss_kappa
from .bootstrap import Estimate as Estimate, bootstrap_mean as bootstrap_mean
from .choices import PositionBias as PositionBias, position_bias as position_bias
from .draws import (
    DrawVariance as DrawVariance,
    majority_value as majority_value,
    pass_at_k as pass_at_k,
    split_variance as split_variance,
)
from .factorial import contrast as contrast
from .paired import (
    PairedComparison as PairedComparison,
    compare_paired as compare_paired,
    minimum_detectable as minimum_detectable,
)
from .ranks import swap_over_halves as swap_over_halves, swap_over_settings as swap_over_settings
from .significance import (
    benjamini_hochberg as benjamini_hochberg,
    holm as holm,
    mean_difference as mean_difference,
)
