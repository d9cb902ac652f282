from .companions import Companion as Companion, Executor as Executor
from .from_python import evaluate as evaluate
from .options import RunOptions as RunOptions
from .requests import Forward as Forward
from .study import Study as Study
