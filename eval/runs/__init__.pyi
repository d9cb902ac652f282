from .predict import RunOptions as RunOptions
from .study import Study as Study, evaluate as evaluate
