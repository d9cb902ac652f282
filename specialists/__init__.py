"""Vision models of one trade, each behind a small result type, and the stages that answer with them alone."""

__all__: list[str] = []
