from .erase import EraseMarks as EraseMarks
from .known_pictures import MarksFrom as MarksFrom
from .recover import RecoverMarks as RecoverMarks
