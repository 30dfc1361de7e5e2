"""Settings of the alerts that can't be meant."""

from typing import Any

from django.conf import settings
from django.core import checks

from console.alerts.addresses import networks_of


@checks.register()
def check_webhook_networks(**_: Any) -> list[checks.CheckMessage]:
    """`alerts.E001`: QMQ_WEBHOOK_NETWORKS holds something that is no network."""
    try:
        networks_of(settings.WEBHOOK_NETWORKS)
    except ValueError as error:
        hint = "Use networks such as 10.20.0.0/16, separated by commas."
        return [checks.Error(f"QMQ_WEBHOOK_NETWORKS: {error}", hint=hint, id="alerts.E001")]
    return []
