from .evaluate import evaluate as evaluate
from .merge import merge as merge
from .predict import Options as Options
from .study import Study as Study
