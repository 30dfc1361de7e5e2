"""Results of background jobs: an English text, and the parts of which the console makes a text in the viewer's language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Part:
    """One fact of a result, such as "3 delivered"."""

    code: str
    """Names the part's text in the catalogues of the console (`result.CODE` in jobs.json)."""
    text: str
    values: Mapping[str, str | int] = field(default_factory=dict)
    """Values of the text; `count` also selects the plural."""

    def as_json(self) -> dict[str, Any]:
        """Return the part as it is stored and as the API returns it."""
        return {"code": self.code, "values": dict(self.values)}


def counting(code: str, count: int, text: str) -> Part:
    """Return a part with one number."""
    return Part(code, text, {"count": count})


@dataclass(frozen=True, slots=True)
class Result:
    """What a run of a background job did."""

    text: str
    parts: Sequence[Mapping[str, Any]] = ()
    """JSON of the parts; empty: only the text is known."""


def result(*parts: Part | None, waits: Sequence[Part] = ()) -> Result:
    """Return the result that consists of these parts. `waits` are the conditions that a job waits for."""
    known = [part for part in parts if part is not None]
    text = ", ".join(part.text for part in known)
    if waits:
        text += f"; waiting for: {'; '.join(part.text for part in waits)}"
    return Result(text, [part.as_json() for part in (*known, *waits)])
