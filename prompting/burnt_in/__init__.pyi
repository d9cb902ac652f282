from .erase import EraseMarks as EraseMarks
from .recover import RecoverMarks as RecoverMarks
