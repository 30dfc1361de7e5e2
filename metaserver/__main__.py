"""`python -m metaserver`: a metaserver of its own, with Django for its database only."""

import logging
import os
import sys
import threading
from collections.abc import Callable

from metaserver.options import MetaOptions
from qmq.private_files import make_private_dir
from qmq_node.daemon.daemon import Daemon
from qmq_node.daemon.main import run_daemon
from qmq_node.process.machine import Machine


def set_up_django(options: MetaOptions) -> None:
    """Configure just enough of Django for the models. Raises SettingError for an invalid database URL."""
    import django
    from django.conf import settings

    from metaserver.stored.database import database_settings

    settings.configure(
        INSTALLED_APPS=["metaserver"],
        DATABASES={"default": database_settings(options.database_url, options.data_dir)},
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()


def run(argv: list[str] | None, prepare: Callable[[MetaOptions], None] = lambda options: None) -> int:
    """Run with Django set up by `prepare`, or before; the exit code. Ends the process when a setting is wrong."""

    def make(options: MetaOptions, machine: Machine) -> Daemon:
        from metaserver.server import Metaserver
        from metaserver.stored.orm_repository import OrmRepository

        return Metaserver(options, OrmRepository(), machine)

    return run_daemon(
        make,
        MetaOptions,
        argv,
        prog="metaserver",
        process="meta",
        description="The metaserver: routes subjects to broker groups and receives registrations and heartbeats.",
        prepare=prepare,
    )


def _prepare(options: MetaOptions) -> None:
    """Set up the database; migrate its tables if it is available."""
    make_private_dir(options.data_dir)
    set_up_django(options)
    from metaserver.stored.database import migrate

    migrate()


def main(argv: list[str] | None = None) -> int:
    """Migrate when the database is available, then serve; the exit code."""
    return run(argv, _prepare)


def end(code: int) -> None:
    """End the process, also while a call to a hanging database blocks a thread, for which Python would wait."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    end(main())
