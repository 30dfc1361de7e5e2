"""Words of texts that people read. Pure."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: "1 message", "3 messages". `plural` is for nouns that take more than an "s"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
