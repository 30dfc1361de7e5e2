"""Checks of the settings that the outbox uses; Django runs them before most commands."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from qmq.integrations.django.outbox.tables import is_wanted, kind_of
from qmq.integrations.django.sending import metaserver_url, producer_options
from qmq.outbox.databases import Kind
from qmq.words import nearest

SETTINGS = ("QMQ_OUTBOX_TABLE",)
"""Those whose names begin with QMQ_OUTBOX_."""


@register(Tags.models)
def check_settings(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Errors of settings. The name of the table is checked before: its model can't be made without."""
    found: list[CheckMessage] = [
        Error(f"{name}: the setting is unknown: {nearest(name, SETTINGS)}", id="qmq_outbox.E001")
        for name in dir(settings)
        if name.startswith("QMQ_OUTBOX_") and name not in SETTINGS
    ]
    try:
        producer_options()
    except ImproperlyConfigured as error:
        found.append(Error(str(error), id="qmq_outbox.E002"))
    try:
        metaserver_url()
    except ImproperlyConfigured as error:
        # No error: commands of a build have no metaserver.
        found.append(Warning(str(error), id="qmq_outbox.W001"))
    return found


@register(Tags.models)
def check_databases(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Errors of the databases in which the project's routers allow the tables."""
    found: list[CheckMessage] = []
    for connection in (connections[alias] for alias in connections if is_wanted(alias)):
        try:
            kind = kind_of(connection)
        except ImproperlyConfigured as error:
            found.append(Error(str(error), id="qmq_outbox.E003"))
            continue
        if not connection.settings_dict["AUTOCOMMIT"]:
            found.append(
                Error(
                    f"database {connection.alias!r}: AUTOCOMMIT is False, so Django does not report commits and `send` raises"
                    " TransactionManagementError. Remove it",
                    id="qmq_outbox.E004",
                )
            )
        if kind is Kind.SQLITE and connection.settings_dict["NAME"] == ":memory:":
            found.append(
                Error(
                    f"database {connection.alias!r}: NAME is ':memory:', which no relay can open, nor the"
                    " deletion of sent messages. Use a file (in tests, Django shares such a database by itself)",
                    id="qmq_outbox.E005",
                )
            )
    return found
