"""Values, the socket, the door to the model and the configuration: what every other folder stands on."""

from looktwice.pipelines.build import ConfigError
from looktwice.pipelines.chat_api import ChatAPI
from looktwice.pipelines.local_vlm import LocalVLM
from looktwice.pipelines.marks import Box, Mask, Point
from looktwice.pipelines.model import Message, Model, Reply, Want
from looktwice.pipelines.near_sighted import NearSighted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.replay import Replay
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.scripted import Scripted
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View

__all__ = [
    "Box",
    "ChatAPI",
    "ConfigError",
    "Item",
    "LocalVLM",
    "Mask",
    "Message",
    "Model",
    "NearSighted",
    "Picture",
    "Pipeline",
    "Point",
    "Replay",
    "Reply",
    "Sample",
    "Scripted",
    "Stage",
    "State",
    "View",
    "Want",
]
