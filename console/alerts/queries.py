"""The read side."""

from datetime import datetime

from django.db.models import Count, Max, Q, QuerySet

from console.alerts.models import Alert, AlertRule, AlertState
from console.alerts.rules import Severity


def rules() -> QuerySet[AlertRule]:
    """Rules with their channels and the count of alerts that fire."""
    firing = Count("alerts", filter=Q(alerts__state=AlertState.FIRING))
    return AlertRule.objects.prefetch_related("channels").annotate(firing_count=firing)


def firing_counts() -> dict[str, int]:
    """How many alerts fire, by severity."""
    firing = Alert.objects.filter(state=AlertState.FIRING).order_by().values_list("severity")
    return {severity.value: 0 for severity in Severity} | dict(firing.annotate(Count("pk")))


def changed_at() -> datetime | None:
    """When an alert last fired or was resolved; None: none ever did."""
    newest = Alert.objects.aggregate(fired=Max("fired_at"), resolved=Max("resolved_at"))
    return max((at for at in newest.values() if at is not None), default=None)


def is_active(at: datetime) -> Q:
    """Silences that hold at a moment."""
    return Q(starts_at__lte=at, ends_at__gt=at)
