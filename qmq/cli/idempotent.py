"""`qmq idempotent`: the table of markers in an SQL database."""

import argparse
import os
from contextlib import closing
from typing import Any

from qmq.cli.outbox import PASSWORD_VARIABLE
from qmq.cli.output import say, say_json
from qmq.cli.values import delay_of
from qmq.idempotent.cleanup import RETENTION, Cleanup
from qmq.idempotent.tables import TABLE, ddl, problems
from qmq.outbox.databases import Address, Connection, Kind, connect
from qmq.words import counted

_RETENTION_DAYS = RETENTION.days


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("idempotent", help="markers of processed messages in an SQL database")
    kinds = parser.add_subparsers(dest="kind", required=True)
    command = kinds.add_parser("ddl", help="print the statements that make the table of markers")
    command.add_argument(
        "database_kind", choices=[str(kind) for kind in Kind], help="kind of the database; mysql is also MariaDB"
    )
    _add_table(command)
    command.set_defaults(run=_ddl)
    command = kinds.add_parser(
        "check",
        help="check an existing table of markers",
        description="Checks whether a table, also one made for QMQ's Java client, can hold markers: width, collation and index of"
        " the key, default values, engine. Prints each problem with the statement that corrects it; the exit code is then 1.",
    )
    _add_database(command)
    command.set_defaults(run=_check)
    command = kinds.add_parser(
        "cleanup",
        help="delete old markers",
        description="Deletes markers that are old enough, 1,000 in each transaction. Run it daily. A message that is delivered"
        " again after its marker was deleted is processed again.",
    )
    _add_database(command)
    command.add_argument(
        "--older-than", type=delay_of, default=RETENTION, metavar="DURATION",
        help=f"age from which markers are deleted, such as {_RETENTION_DAYS}d or 12h; default: {_RETENTION_DAYS}d; not below the"
        " retention of the subjects' messages",
    )  # fmt: skip
    command.set_defaults(run=_cleanup)


def _add_table(command: argparse.ArgumentParser) -> None:
    command.add_argument("--table", default=TABLE, help=f"table, or schema.table; default: {TABLE}")


def _add_database(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--database", required=True, metavar="URL",
        help="postgresql://user@host:port/name, mysql://user@host:port/name or sqlite:////path, with ?tls=encrypt or ?tls=verify"
        f" for TLS; the password is in {PASSWORD_VARIABLE}",
    )  # fmt: skip
    _add_table(command)
    command.add_argument("--json", action="store_true", help="print JSON")


def _connection(arguments: argparse.Namespace) -> Connection:
    return connect(Address.parse(arguments.database, os.environ.get(PASSWORD_VARIABLE, "")))


def _ddl(arguments: argparse.Namespace) -> int:
    for line in ddl(Kind(arguments.database_kind), arguments.table).splitlines():
        say(line)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    with closing(_connection(arguments)) as connection:
        found = problems(connection, arguments.table)
    if arguments.json:
        say_json({"table": arguments.table, "problems": found})
    elif found:
        for problem in found:
            say(f"{arguments.table}: {problem}")
    else:
        say(f"{arguments.table} can hold markers")
    return 1 if found else 0


def _cleanup(arguments: argparse.Namespace) -> int:
    with closing(_connection(arguments)) as connection:
        deleted = sum(Cleanup(connection, table=arguments.table, retention=arguments.older_than).batches())
    if arguments.json:
        say_json({"table": arguments.table, "deleted": deleted})
    else:
        say(f"deleted {counted(deleted, 'marker')} of {arguments.table}")
    return 0
