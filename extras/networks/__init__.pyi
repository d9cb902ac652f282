from .network import Network as Network
from .opening import close_networks as close_networks
