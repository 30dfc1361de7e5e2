"""class Subjects: the numbers by which index entries name subjects."""

from dataclasses import dataclass, field

from delay_node.errors import LimitReached

SUBJECTS_MAX = 200_000
"""Subjects of one node; a further one is rejected."""


@dataclass(slots=True)
class Subjects:
    """Subject names by number, from 0 in the order in which they came. None is ever removed."""

    names: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: str) -> int:
        """The number of a subject; a new one gets the next. Raises LimitReached for more than SUBJECTS_MAX."""
        number = self._numbers.get(name)
        if number is None:
            if len(self.names) >= SUBJECTS_MAX:
                raise LimitReached(f"this delay node holds {SUBJECTS_MAX} subjects, its limit")
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
        return number

    def find(self, name: str) -> int | None:
        """Return the number of a subject, None for one without messages."""
        return self._numbers.get(name)

    def name(self, number: int) -> str:
        """Return the name behind a number of an index entry, "" for a number that was never given."""
        return self.names[number] if 0 <= number < len(self.names) else ""
