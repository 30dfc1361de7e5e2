"""Django's entry: `manage.py` in the project, `qmq-console` where a wheel is installed.

Nodes are started before Django is imported, because they run without it.
"""

import os
import sys
from collections.abc import Callable

from qmq.errors import SettingError
from qmq.private_files import restrict_umask

NODES = {"broker_node", "delay_node"}
DATA_DIR = "--data-dir"


def main() -> None:
    """Run a command. Every command takes `--data-dir`; a wrong setting or a missing database is one line on stderr."""
    restrict_umask()
    if len(sys.argv) > 1 and sys.argv[1] in NODES:
        os.execv(sys.executable, [sys.executable, "-m", sys.argv[1], *sys.argv[2:]])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    from django.core.management import execute_from_command_line

    reporting(take_data_dir(sys.argv), execute_from_command_line)


def reporting(arguments: list[str], run: Callable[[list[str]], None]) -> None:
    """Run a command; a wrong setting or a database that can't be used ends the process with one line on stderr."""
    from django.db import InterfaceError, OperationalError, ProgrammingError

    try:
        run(arguments)
    except SettingError as error:
        sys.exit(f"{os.path.basename(arguments[0])} {' '.join(arguments[1:2])}: {error}")
    except (InterfaceError, OperationalError, ProgrammingError) as error:
        if "--traceback" in arguments:
            raise
        from console.management.places import no_database

        sys.exit(f"{os.path.basename(arguments[0])} {' '.join(arguments[1:2])}: {no_database(error)}")


def take_data_dir(arguments: list[str]) -> list[str]:
    """The arguments without `--data-dir DIR`, which becomes QMQ_DATA_DIR: Django's settings are read from the environment, before
    any command parses its flags."""
    rest = []
    given = iter(arguments)
    for argument in given:
        name, is_whole, value = argument.partition("=")
        if name != DATA_DIR:
            rest.append(argument)
            continue
        folder = value if is_whole else next(given, "")
        if not folder:
            sys.exit(f"{DATA_DIR} requires a folder")
        os.environ["QMQ_DATA_DIR"] = os.path.abspath(folder)
    return rest


if __name__ == "__main__":
    main()
