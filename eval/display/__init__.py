"""How results are shown: tables, curves, contact sheets, pages of one sample, progress in the terminal.

Not here: what the numbers are (`scoring`, `analysis`), and which pages a report holds (`eval.report`)."""

__all__: list[str] = []
