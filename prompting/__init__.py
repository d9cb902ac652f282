"""Markers, crops, wording and turns: the stages that decide what the model sees and is asked."""

__all__: list[str] = []
