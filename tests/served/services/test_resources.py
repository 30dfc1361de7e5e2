"""Each field of each kind of row that operators manage: it can't be accepted and thrown away."""

import json
import re
import sys
from typing import Any

import pytest
from django.utils import timezone

from console import saved_filters
from console.accounts import services as accounts
from console.accounts.models import User
from console.alerts.models import Alert, AlertChannel, AlertRule, Silence
from console.alerts.services import alerts, channels, rules, silences
from console.models import SavedFilter
from console.outbox.models import OutboxDatabase
from console.outbox.services import databases
from metaserver.models import BrokerGroup, ConsumerGroup, Subject, Team
from metaserver.services import broker_groups, groups, members, subjects, teams
from metaserver.services.resources import Resource
from tests.support.servers.processes import PROJECT

ROWS: dict[str, Any] = {
    subjects.SUBJECT.kind: Subject(),
    groups.GROUP.kind: ConsumerGroup(),
    teams.TEAM.kind: Team(),
    broker_groups.BROKER_GROUP.kind: BrokerGroup(),
    members.COPIES.kind: BrokerGroup(),
    channels.ALERT_CHANNEL.kind: AlertChannel(),
    rules.ALERT_RULE.kind: AlertRule(threshold=1.0, clear_threshold=1.0),
    silences.SILENCE.kind: Silence(starts_at=timezone.now(), ends_at=timezone.now()),
    alerts.ALERT.kind: Alert(),
    accounts.USER.kind: User(),
    databases.OUTBOX_DATABASE.kind: OutboxDatabase(),
    saved_filters.SAVED_FILTER.kind: SavedFilter(),
}
WITH_RELATIONS = {"alert_rule", "user"}
"""Kinds whose description has rows of other tables, which only a stored row has."""
SHOWN_AS = {("alert_channel", "url"): "origin", ("alert_channel", "secret"): "secrets"}
"""Fields whose value is not shown: what changes with them."""

PAGES = {
    "subject": ("features/subjects",),
    "consumer_group": ("features/groups",),
    "team": ("features/teams",),
    "broker_group": ("features/brokers",),
    "alert_channel": ("features/alerts",),
    "alert_rule": ("features/alerts",),
    "silence": ("features/alerts",),
    "alert": ("features/alerts",),
    "outbox_database": ("features/outbox",),
    "saved_filter": ("shared/filters",),
    "user": ("features/users", "features/account", "ui"),
}
"""By kind: the folders of the front end where one is changed."""


def resources() -> list[Resource[Any]]:
    """All that modules of the project define."""
    modules = [module for name, module in sys.modules.items() if name.startswith(("metaserver.", "console.", "api."))]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Resource)]
    return list({id(one): one for one in found}.values())


@pytest.mark.django_db
@pytest.mark.parametrize("resource", resources(), ids=lambda resource: resource.kind)
def test_each_field_of_a_resource_is_in_its_description(resource: Resource[Any]) -> None:
    """A change is stored when the description changes: one of a field that is not described would be lost."""
    row = ROWS[resource.kind]
    if resource.kind in WITH_RELATIONS:
        row.save()
    wanted = {SHOWN_AS.get((resource.kind, name), name) for name in resource.fields}
    assert not wanted - set(resource.described(row)), "add it to the `described` of the resource"


def test_each_kind_of_row_is_tested() -> None:
    assert {resource.kind for resource in resources()} == set(ROWS)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_field_has_a_label(language: str) -> None:
    """The preview of a change shows it; without a label it would show the name in the API."""
    labels = json.loads((PROJECT / f"frontend/src/i18n/{language}/common.json").read_text())["field"]
    shown = {SHOWN_AS.get((one.kind, name), name) for one in resources() for name in one.fields}
    assert not shown - labels.keys(), f"add field.NAME to frontend/src/i18n/{language}/common.json"


@pytest.mark.parametrize("resource", resources(), ids=lambda resource: resource.kind)
def test_each_field_can_be_set_in_the_console(resource: Resource[Any]) -> None:
    files = (path for folder in PAGES[resource.kind] for path in (PROJECT / "frontend/src" / folder).rglob("*.ts*"))
    words = {word for path in files if ".test." not in path.name for word in re.findall(r"\w+", path.read_text())}
    assert not resource.fields.keys() - words, f"add an input to the form in frontend/src/{PAGES[resource.kind][0]}"
