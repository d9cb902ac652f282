from .predict import RunOptions as RunOptions
from .requests import Forward as Forward
from .study import Study as Study, evaluate as evaluate
