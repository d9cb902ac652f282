from .files import load_key as load_key, load_replies as load_replies
from .task import OfficialLabel as OfficialLabel, RecordedQuestions as RecordedQuestions
