from .batched.model import Batched as Batched
from .cache import Cached as Cached, CacheError as CacheError
from .chat_api import ChatAPI as ChatAPI
from .limits import Limited as Limited
from .local_vlm import LocalVLM as LocalVLM
from .offline import Replay as Replay, Scripted as Scripted
from .person import Person as Person
from .pocket.model import Pocket as Pocket
from .wrappers import Metered as Metered, Retried as Retried, wrap as wrap
