"""A stand-in for SGLang with its signatures (`signatures.yaml`); it refuses and ignores the same
arguments as SGLang."""

from .engine import Engine as Engine

__version__ = "0.5.23"
