from .image_size import InputSize as InputSize
from .network import Network as Network
