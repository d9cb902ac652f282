from .records import (
    Record as Record,
    RunError as RunError,
    RunFolder as RunFolder,
    SampleRow as SampleRow,
)
