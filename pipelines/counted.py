"""Numbers in sentences: one sample, two samples."""

__all__: list[str] = []


def counted(number: int, noun: str, many: str = "") -> str:
    """The number with its noun, "1 sample" or "1,200 samples"; `many` is a plural that is not
    formed by an s."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"
