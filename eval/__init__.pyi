from .analysis import Finding as Finding, find as find
from .display import score_table as score_table
from .readers import Robust as Robust
from .records import RunFolder as RunFolder
from .replies import RecordedQuestions as RecordedQuestions
from .report import write_report as write_report
from .results import Results as Results
from .runs import evaluate as evaluate
from .tasks import (
    Blink as Blink,
    Columns as Columns,
    Facts as Facts,
    Folder as Folder,
    MarkedScenes as MarkedScenes,
    Photos as Photos,
    Subset as Subset,
    Task as Task,
    TaskError as TaskError,
    Tsv as Tsv,
)
