from .answers import (
    cohens_kappa as cohens_kappa,
    fleiss_kappa as fleiss_kappa,
    pass_at_k as pass_at_k,
)
from .intervals import bootstrap_mean as bootstrap_mean
from .paired import (
    compare_paired as compare_paired,
    correct as correct,
    mean_difference as mean_difference,
)
