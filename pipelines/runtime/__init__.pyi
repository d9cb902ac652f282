from .batches import Batcher as Batcher
from .networks import WeightsError as WeightsError, close_networks as close_networks
from .stores import Blobs as Blobs, ResultStore as ResultStore, use_result_store as use_result_store
