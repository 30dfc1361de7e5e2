"""`manage.py import_datasources URL`: registers the databases of QMQ's table `datasource_config`."""

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.accounts.services import UP
from console.management.places import add_data_dir
from console.outbox.datasources import QMQ_TABLE, SELECT, Datasource, NotImportable
from console.outbox.models import OutboxDatabase
from console.outbox.services.databases import create_database
from qmq.errors import DatabaseFailed, QmqError
from qmq.outbox.databases import Address, connect
from qmq.words import counted, printable

PASSWORD_VARIABLE = "QMQ_DATABASE_PASSWORD"


class Command(BaseCommand):
    """Registers each database that is not registered yet, and names the rows that it can't register; audited."""

    help = "Register the databases of QMQ's table datasource_config."

    def add_arguments(self, parser: CommandParser) -> None:
        """Flags."""
        add_data_dir(parser)
        parser.add_argument(
            "url",
            help=f"database of QMQ's metaserver, such as mysql://user@host:3306/qmq; the password is in {PASSWORD_VARIABLE}",
        )
        parser.add_argument("--room", help="only rows of this room")
        parser.add_argument("--table", default=QMQ_TABLE, help=f"table of the outboxes; default: {QMQ_TABLE}")
        parser.add_argument("--owner", help="team that owns the databases; default: none")
        parser.add_argument(
            "--disabled", action="store_true", help="do not test the databases, and import them disabled"
        )
        parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
        parser.add_argument("--reason", default="", help="reason for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        """Import the rows."""
        counts = {"imported": 0, "registered": 0, "failed": 0}
        self._names = set(OutboxDatabase.objects.values_list("name", flat=True))
        for row in _rows(options["url"]):
            if options["room"] is None or row.room == options["room"]:
                counts[self._import(row, options)] += 1
        self.stdout.write(
            f"{counted(counts['imported'], 'database')} {'would be ' if options['dry_run'] else ''}imported,"
            f" {counts['registered']} already registered, {counts['failed']} not imported"
        )
        if counts["failed"]:
            raise CommandError("Rows could not be imported, see above.")

    def _import(self, row: Datasource, options: dict[str, Any]) -> str:
        where = printable(f"row {row.id}, {row.shown_url}")
        try:
            values = row.values(options["table"]) | {"owner": options["owner"]}
            if values["name"] in self._names:
                self.stdout.write(f"{where}: {values['name']} is already registered")
                return "registered"
            values["is_enabled"] &= not options["disabled"]
            create_database(
                values.pop("kind"), values, actor=UP, reason=options["reason"][:500], dry_run=options["dry_run"]
            )
        except (NotImportable, QmqError) as error:
            self.stdout.write(f"{where}: not imported: {printable(str(error))}")
            return "failed"
        self._names.add(values["name"])
        state = "" if values["is_enabled"] else ", disabled"
        self.stdout.write(f"{where}: {'would be ' if options['dry_run'] else ''}imported as {values['name']}{state}")
        return "imported"


def _rows(source: str) -> list[Datasource]:
    """The rows of the table. Raises SettingError for a wrong URL, CommandError if they can't be read."""
    try:
        connection = connect(Address.parse(source, os.environ.get(PASSWORD_VARIABLE, "")))
        try:
            return [
                Datasource(int(row_id), str(url), str(user), str(password), int(status), str(room))
                for row_id, url, user, password, status, room in connection.rows(SELECT)
            ]
        finally:
            connection.close()
    except DatabaseFailed as error:
        raise CommandError(str(error)) from error
