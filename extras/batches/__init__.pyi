from .model import Batched as Batched
