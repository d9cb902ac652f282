"""A stand-in for SGLang with its signatures (`signatures.yaml`); it refuses and ignores what SGLang
refuses and ignores."""

from .engine import Engine as Engine

__version__ = "0.5.23"
