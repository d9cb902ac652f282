"""The functions behind the command line, a file for each kind of thing that a command begins with.

Not here: what they do, which stands in the other rooms and is imported when a command runs.
"""

__all__: list[str] = []
