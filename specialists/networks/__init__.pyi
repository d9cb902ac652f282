from .base import Network as Network
from .image_size import WorkingSize as WorkingSize
from .transformers_hub import HubNetwork as HubNetwork
