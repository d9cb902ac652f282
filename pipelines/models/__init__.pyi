from .cache import Cached as Cached, CacheError as CacheError
from .chat_api import ChatAPI as ChatAPI
from .local_vlm import LocalVLM as LocalVLM
from .offline import Replay as Replay, Scripted as Scripted
from .wrappers import Limited as Limited, Metered as Metered, Retried as Retried, wrap as wrap
