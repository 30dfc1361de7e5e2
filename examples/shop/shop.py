"""What the shop is: its teams, people, subjects and consumer groups, as shop.yaml tells it. Values only."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml


class Pace(StrEnum):
    """How a consumer group works."""

    QUICK = "quick"
    """Acks at once."""
    SLOW = "slow"
    """Takes less than arrives: its lag grows."""
    STOPPED = "stopped"
    """Works off a few messages and leaves: its time lag grows."""
    UNSTEADY = "unsteady"
    """Needs a second attempt now and then."""
    FAULTY = "faulty"
    """Can't handle spoiled messages: they become dead letters."""
    VARYING = "varying"
    """Takes less than arrives during an incident (`workers.Incident`), otherwise as quick."""
    PAUSED = "paused"
    """An operator paused it."""


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group of a subject."""

    name: str
    pace: Pace
    members: int
    description: str


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject, what its messages are (a kind of examples.shop.bodies), and how many of all messages go to it."""

    name: str
    kind: str
    weight: int
    groups: tuple[Group, ...]
    settings: dict[str, Any]
    """As `PUT /api/v1/apply/` takes them."""


@dataclass(frozen=True, slots=True)
class Shop:
    """All of it."""

    teams: dict[str, str]
    """Names and descriptions."""
    people: tuple[dict[str, Any], ...]
    """As `POST /api/v1/users/` takes them."""
    subjects: tuple[Subject, ...]

    def groups(self) -> Iterator[tuple[Subject, Group]]:
        """Every consumer group with its subject."""
        return ((subject, group) for subject in self.subjects for group in subject.groups)

    def document(self) -> dict[str, Any]:
        """Teams, subjects and consumer groups as `PUT /api/v1/apply/` takes them."""
        return {
            "teams": [{"name": name, "description": text} for name, text in self.teams.items()],
            "subjects": [
                {
                    "name": subject.name,
                    **subject.settings,
                    "consumer_groups": [
                        {"name": group.name, "description": group.description} for group in subject.groups
                    ],
                }
                for subject in self.subjects
            ],
        }


def read_shop() -> Shop:
    """The shop of shop.yaml."""
    document = yaml.safe_load(Path(__file__).with_name("shop.yaml").read_text(encoding="utf-8"))
    return Shop(
        document["teams"],
        tuple(document["people"]),
        tuple(_subject(name, item) for name, item in document["subjects"].items()),
    )


def _subject(name: str, item: dict[str, Any]) -> Subject:
    kind, weight, groups = item.pop("kind"), item.pop("weight", 0), item.pop("groups", {})
    return Subject(
        name,
        kind,
        weight,
        tuple(
            Group(group, Pace(values.get("pace", Pace.QUICK)), values.get("members", 1), values.get("description", ""))
            for group, values in groups.items()
        ),
        item,
    )
