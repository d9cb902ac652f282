"""A model that is asked in batches, for half the price: what a run wants to ask is handed in, and
waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from yarl import URL

from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.model import CallOptions, Messages, ModelError, Reply, price_fault
from looktwice.pipelines.models.chat_api import ChatAPI

HOSTS = {"api.anthropic.com": "anthropic", "generativelanguage.googleapis.com": "gemini"}


@dataclass(frozen=True)
class Batched:
    """The model `chat`, asked through the batch endpoints of its server, which take half the price
    and up to a day.

    `run` goes through all samples, hands in what they ask, at most `requests` in a batch, looks
    every `look` seconds how far it is, keeps the replies in the cache, and goes through the samples
    again that waited. So each turn of a conversation takes a round of batches, and so does each
    draw of `Vote`. A run that is stopped or killed leaves its batches with the server, and the same
    command collects them. What was answered directly is the same to the cache. `dialect` is the
    provider's own protocol of batches; without one the host tells, and any other than Anthropic's
    and Gemini's speaks OpenAI's. Anthropic has no seeds, and needs `max_tokens`; Gemini is asked
    without tools. The URL of `chat` is the one of direct requests, such as
    https://generativelanguage.googleapis.com/v1beta/openai. `prices` are those of a batch.
    `--budget` and `--max-requests` cannot bound it; `--limit` does.
    """

    chat: ChatAPI
    look: float = field(default=60.0, metadata=NOT_IDENTITY)
    requests: int = field(default=50_000, metadata=NOT_IDENTITY)
    dialect: Literal["openai", "anthropic", "gemini"] | None = field(
        default=None, metadata=NOT_IDENTITY
    )
    prices: Mapping[str, Any] | None = field(default=None, metadata=NOT_IDENTITY)
    remote: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.look <= 0 or self.requests < 1:
            raise ValueError(
                f"look is above 0 and requests 1 or more, found {self.look} and {self.requests}"
            )
        if self.prices is not None and (fault := price_fault(self.prices)):
            raise ValueError(fault)
        if len(self.chat.urls) > 1:
            raise ValueError("a batch lies with one server; give `chat` one `url`")

    @property
    def identity(self) -> str:
        """That of `chat`: a reply is the same whichever way it was asked for."""
        return self.chat.identity

    @property
    def speaks(self) -> str:
        """The dialect in force."""
        return self.dialect or HOSTS.get(URL(self.chat.urls[0]).host or "", "openai")

    def __getattr__(self, name: str) -> Any:
        """What else is asked of a model is that of `chat`."""
        if name.startswith("_") or name == "chat":
            raise AttributeError(name)
        return getattr(self.chat, name)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Raises ModelError: only `run` knows what else there is to ask."""
        raise ModelError("only `looktwice run` asks in batches; use `chat` itself here")
