from .bubblewrap import Bubblewrap as Bubblewrap
from .container import Container as Container
from .sandbox import PythonSandbox as PythonSandbox
from .tool import RunPython as RunPython
