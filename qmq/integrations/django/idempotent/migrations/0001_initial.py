"""The table of markers, in each database that is migrated."""

from typing import Any

from django.db import migrations

from qmq.idempotent.tables import TABLE, ddl_statements
from qmq.integrations.django.idempotent import kind_of


def create(apps: Any, schema_editor: Any) -> None:
    for statement in ddl_statements(kind_of(schema_editor.connection)):
        schema_editor.execute(statement)


def drop(apps: Any, schema_editor: Any) -> None:
    schema_editor.execute(f"DROP TABLE {schema_editor.quote_name(TABLE)}")


class Migration(migrations.Migration):
    initial = True
    operations = [migrations.RunPython(create, drop)]
