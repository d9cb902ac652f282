from .recorded import Requests as Requests
