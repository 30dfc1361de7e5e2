"""The summary tables by name: jobs publish them, pages read them. The models describe them."""

from dataclasses import dataclass
from functools import cached_property

from django.db import models

from console.analytics.models import Summary, summaries
from console.analytics.models.summary import meaning_of

_COMMON = {field.name for field in Summary._meta.get_fields()} | {"id"}
_TYPES: dict[type, str] = {
    models.CharField: "text",
    models.BigIntegerField: "integer",
    models.FloatField: "number",
    models.BooleanField: "boolean",
}
_BOUNDS = ("_min", "_max", "_mean", "_median", "_last", "_low", "_mid", "_high")
_UNITS = {
    "messages_per_second": "messages/s",
    "bytes_per_second": "bytes/s",
    "seconds": "s",
    "ms": "ms",
    "messages": "messages",
    "bytes": "bytes",
    "count": "count",
    "ratio": "1",
    "attempts": "attempts",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its type (text, integer, number, boolean), its unit (None: it has none) and what it says."""

    name: str
    type: str
    unit: str | None
    text: str
    is_nullable: bool
    is_key: bool
    length_max: int | None
    choices: tuple[str, ...]
    """The possible values, sorted; empty: any."""


@dataclass(frozen=True)
class SummaryTable:
    """A table: its name and its model."""

    name: str
    model: type[Summary]

    @property
    def text(self) -> str:
        """What it shows."""
        return (self.model.__doc__ or "").strip()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Its columns, the key's first; `run`, `step_seconds` and `at_ms`, which all have, left out."""
        fields = [field for field in self.model._meta.fields if field.name not in _COMMON]
        found = [_column(self.model, field) for field in fields]
        return tuple(sorted(found, key=lambda column: not column.is_key))


def _column(model: type[Summary], field: "models.Field[object, object]") -> Column:
    kind = next(text for cls, text in _TYPES.items() if isinstance(field, cls))
    choices = tuple(sorted(str(value) for value, _ in field.choices or ()))
    is_key = field.name in model.key
    unit = _unit(field.name) if kind in ("integer", "number") else None
    return Column(field.name, kind, unit, meaning_of(field), field.null, is_key, field.max_length, choices)


def _unit(name: str) -> str | None:
    for bound in _BOUNDS:
        name = name.removesuffix(bound)
    return next((unit for ending, unit in _UNITS.items() if name == ending or name.endswith(f"_{ending}")), None)


_MODELS: dict[str, type[Summary]] = {
    "lag": summaries.Lag,
    "subject_rates": summaries.SubjectRates,
    "group_rates": summaries.GroupRates,
    "latencies": summaries.Latency,
    "group_skew": summaries.GroupSkew,
    "consumer_shares": summaries.ConsumerShare,
    "failures": summaries.Failure,
    "delayed_load": summaries.DelayedLoad,
    "drain_forecasts": summaries.DrainForecast,
    "disk_forecasts": summaries.DiskForecast,
    "anomalies": summaries.Anomaly,
    "forecast_scores": summaries.ForecastScore,
    "team_capacity": summaries.TeamCapacity,
    "broker_group_numbers": summaries.BrokerGroupNumbers,
}
TABLES = {name: SummaryTable(name, model) for name, model in _MODELS.items()}
