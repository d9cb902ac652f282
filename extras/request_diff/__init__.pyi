from .factors import compare_requests as compare_requests
from .requests import read_requests as read_requests
