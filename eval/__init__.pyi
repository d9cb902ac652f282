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
    BlinkTwice as BlinkTwice,
    Columns as Columns,
    DoYouSeeMe as DoYouSeeMe,
    Facts as Facts,
    Folder as Folder,
    JointQuestions as JointQuestions,
    MarkedScenes as MarkedScenes,
    Photos as Photos,
    Subset as Subset,
    Task as Task,
    TaskError as TaskError,
    Tsv as Tsv,
    Vlm2Bench as Vlm2Bench,
)
