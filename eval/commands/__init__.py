"""The functions behind the command line: one file for each group of commands.

Not here: the work itself, which is in the other rooms and imported when a command runs.
"""

__all__: list[str] = []
