from .mark_questions import MarkQuestions as MarkQuestions
