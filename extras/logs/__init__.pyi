from .compare import compare_logs as compare_logs
from .format import read_logs as read_logs
