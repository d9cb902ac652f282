"""The functions behind the command line, a file for each kind of first argument.

Not here: the work itself, which is in the other rooms and imported when a command runs.
"""

__all__: list[str] = []
