from .compare import LogComparison as LogComparison, compare_logs as compare_logs
from .format import read_logs as read_logs
from .log import Log as Log
