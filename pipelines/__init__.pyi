from .config import ConfigError as ConfigError
from .extensions import Extension as Extension
from .marks import Box as Box, Mask as Mask, Point as Point
from .model import CallOptions as CallOptions, Message as Message, Model as Model, Reply as Reply
from .models import ChatAPI as ChatAPI, Pocket as Pocket, Replay as Replay, Scripted as Scripted
from .picture import Picture as Picture
from .pipeline import Pipeline as Pipeline
from .sample import Item as Item, Sample as Sample
from .state import Stage as Stage, State as State
from .view import View as View
