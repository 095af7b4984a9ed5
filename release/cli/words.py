"""Small pieces of what the commands say."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """How many there are, with the word for so many."""
    return f"{count} {one}" if count == 1 else f"{count} {many or one + 's'}"


def cause(error: OSError) -> str:
    """Why a file could not be read, as the operating system says it."""
    return error.strerror or type(error).__name__
