"""Fields of all summaries: the run that produced a row, its step, and its key."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from django.db import models

from console.analytics.models.runs import AnalyticsRun
from console.analytics.steps import Step
from qmq.protocol.names import CONSUMER_ID_CHARS_MAX, SUBJECT_CHARS_MAX

GROUP_CHARS_MAX = CONSUMER_ID_CHARS_MAX  # a broadcast's group is its consumer id
ALL_STEPS = tuple(Step)
LONG_STEPS = (Step.HOUR, Step.DAY)
MEANING = "meaning"


class Summary(models.Model):
    """A row of a summary table: `step_seconds` from `at_ms` on. Null is what could not be measured.

    Names are text: a summary outlives the subject it is about.
    """

    run = models.ForeignKey(AnalyticsRun, on_delete=models.CASCADE)
    step_seconds = models.PositiveIntegerField()
    at_ms = models.BigIntegerField()

    key: ClassVar[tuple[str, ...]] = ()
    """The fields that identify a row within a step."""
    steps: ClassVar[tuple[Step, ...]] = ALL_STEPS
    ranked_by: ClassVar[str] = ""
    """The column whose highest values a moment of a short step keeps where it has too many rows; "": it keeps all."""
    is_ahead: ClassVar[bool] = False
    """It looks ahead: `at_ms` is in the future, and what is published replaces all that was known."""
    never: ClassVar[Mapping[str, str]] = {}
    """Column of a time -> the column that has a value where the time is null because it never comes."""

    class Meta:
        abstract = True


def one_row(table: str, *key: str) -> tuple[models.BaseConstraint, ...]:
    """One row for each key and moment. It also serves the pages: a series is a range of this index."""
    return (models.UniqueConstraint(fields=(*key, "step_seconds", "at_ms"), name=f"analytics_{table}_key"),)


def by_time(table: str, *columns: str, alerts: models.Q | None = None) -> tuple[models.Index, ...]:
    """For lists of a time range, for replacing and deleting a time range, and for columns that are requested alone.

    `alerts`: the few rows of an hour that rules are evaluated on. MariaDB has no such index, and reads the hour.
    """
    time = ("step_seconds", "at_ms")
    found = [models.Index(fields=time, name=f"analytics_{table}_at")]
    found += [models.Index(fields=(name, *time), name=f"analytics_{table}_{name}") for name in columns]
    if alerts is not None:
        # The last one: of indexes that it holds for equal, SQLite takes the newest.
        found.append(models.Index(fields=time, condition=alerts, name=f"analytics_{table}_alerts"))
    return tuple(found)


F = TypeVar("F", bound="models.Field[Any, Any]")


def meaning(text: str, field: F) -> F:
    """This column, with what it says: no part of the database's schema."""
    setattr(field, MEANING, text)
    return field


def meaning_of(field: "models.Field[Any, Any]") -> str:
    """What a column says."""
    text: str = getattr(field, MEANING)
    return text


def text_field(chars_max: int, text: str) -> "models.CharField[str, str]":
    return meaning(text, models.CharField(max_length=chars_max))


def choice_field(choices: type[StrEnum], chars_max: int, text: str) -> "models.CharField[str, str]":
    return meaning(text, models.CharField(max_length=chars_max, choices=[(kind.value, kind.value) for kind in choices]))


def subject_field() -> "models.CharField[str, str]":
    return text_field(SUBJECT_CHARS_MAX, "the subject")


def group_field(text: str = "the consumer group") -> "models.CharField[str, str]":
    return text_field(GROUP_CHARS_MAX, text)


def whole_field(text: str) -> "models.BigIntegerField[int | None, int | None]":
    return meaning(text, models.BigIntegerField(null=True))


def number_field(text: str) -> "models.FloatField[float | None, float | None]":
    return meaning(text, models.FloatField(null=True))


class OfGroup(Summary):
    """A summary of a consumer group on a subject."""

    subject = subject_field()
    group = group_field()

    key: ClassVar[tuple[str, ...]] = ("subject", "group")

    class Meta:
        abstract = True
