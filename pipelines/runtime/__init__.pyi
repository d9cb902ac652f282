from .networks import close_networks as close_networks
from .stores import use_result_store as use_result_store
