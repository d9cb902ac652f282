from .factors import compare_sent as compare_sent
from .requests import read_requests as read_requests
