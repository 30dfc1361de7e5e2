"""What of the past is kept."""

from datetime import datetime, timedelta

from console.alerts.models import Alert, AlertState, Silence

KEEP = timedelta(days=90)
BATCH_ROWS = 500


def forget_old(now: datetime) -> int:
    """Delete resolved alerts (with their notifications) and silences that ended KEEP ago, at most BATCH_ROWS of each; how
    many. To be called again and again: with little at a time no lock lasts."""
    old = now - KEEP
    alerts = Alert.objects.filter(state=AlertState.RESOLVED, resolved_at__lt=old).order_by("resolved_at")
    silences = Silence.objects.filter(ends_at__lt=old).order_by("ends_at")
    ids = list(alerts.values_list("pk", flat=True)[:BATCH_ROWS])
    silence_ids = list(silences.values_list("pk", flat=True)[:BATCH_ROWS])
    Alert.objects.filter(pk__in=ids).delete()
    Silence.objects.filter(pk__in=silence_ids).delete()
    return len(ids) + len(silence_ids)
