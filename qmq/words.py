"""Words of texts that people read. Pure."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: "1 message", "3 messages". `plural` is for nouns that take more than an "s"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def seconds(number: float) -> str:
    """Returns a time limit, such as "0.75 s", with at most two digits after the point: many are what is left of another one."""
    return f"{round(number, 2):g} s"
