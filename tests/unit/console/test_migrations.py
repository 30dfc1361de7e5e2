"""Migrations keep the tables usable for the version that still runs while they are applied (docs/how-to/upgrade.md)."""

from collections.abc import Iterable, Iterator

import pytest
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

APPS = ("accounts", "alerts", "analytics", "console", "console_outbox", "metaserver")
REMOVING = (migrations.RemoveField, migrations.DeleteModel, migrations.RenameField, migrations.RenameModel)
SAID_IN_THE_CHANGELOG: frozenset[str] = frozenset()
"""Migrations (`app.name`) for which the version before has to be stopped."""


def breaking(operations: Iterable[Operation]) -> Iterator[str]:
    """What the version before can't work with: it inserts rows without new columns, and reads those that are gone."""
    for operation in operations:
        if isinstance(operation, REMOVING):
            yield f"{operation.describe()}: the version before uses it; remove it one version later"
        if isinstance(operation, migrations.AddField | migrations.AlterField):
            field = operation.field
            if field.many_to_many or field.null or field.db_default is not models.NOT_PROVIDED or field.primary_key:
                continue
            yield f"{operation.describe()}: it is NOT NULL; give it a db_default, which inserts of the version before need"


def test_migrations_after_the_first_of_an_app_keep_the_tables_usable() -> None:
    found = MigrationLoader(None).disk_migrations
    assert {app for app, _ in found if app in APPS} == set(APPS)
    problems = [
        f"{app}.{name}: {problem}"
        for (app, name), migration in found.items()
        if app in APPS and not migration.initial and f"{app}.{name}" not in SAID_IN_THE_CHANGELOG
        for problem in breaking(migration.operations)
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (migrations.AddField("node", "zone", models.CharField(max_length=9, default="")), "NOT NULL"),
        (migrations.AlterField("node", "zone", models.BooleanField(default=False)), "NOT NULL"),
        (migrations.AddField("node", "zone", models.CharField(max_length=9, db_default="")), ""),
        (migrations.AddField("node", "zone", models.IntegerField(null=True)), ""),
        (migrations.RemoveField("node", "zone"), "one version later"),
        (migrations.RenameField("node", "zone", "area"), "one version later"),
        (migrations.DeleteModel("node"), "one version later"),
    ],
)
def test_what_the_version_before_can_not_work_with_is_found(operation: Operation, why: str) -> None:
    (problem,) = tuple(breaking([operation])) or ("",)
    assert why in problem
    assert bool(problem) is bool(why)
