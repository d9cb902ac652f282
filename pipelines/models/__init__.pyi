from .chat_api import ChatAPI as ChatAPI
from .person import Person as Person
from .pocket.model import Pocket as Pocket
from .replay import Replay as Replay
from .scripted import Scripted as Scripted
