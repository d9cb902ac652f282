"""Scored records: the verdict on each, all of a run as columns, and the table of them that is kept
in its folder.

Not here: how records are read and scored (`scoring`), and what is computed from them.
"""

__all__: list[str] = []
