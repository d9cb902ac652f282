from .chat_api import ChatAPI as ChatAPI
from .offline import Person as Person, Replay as Replay, Scripted as Scripted
from .pocket.model import Pocket as Pocket
