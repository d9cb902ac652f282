from .judgements import Judgement as Judgement
from .records import Record as Record, RunError as RunError, RunFolder as RunFolder
from .writer import RunWriter as RunWriter
