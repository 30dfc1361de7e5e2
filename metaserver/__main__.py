"""`python -m metaserver`: a metaserver of its own, with Django for its database only."""

import asyncio
import logging
import os
import sys
import threading

from metaserver.options import MetaOptions
from qmq.daemon.loop_pauses import LoopPauses
from qmq.daemon.machine import Machine
from qmq.daemon.runner import FAILED, run_daemon, set_up_logging
from qmq.errors import SettingError
from qmq.options import exit_wrong, parse_options
from qmq.private_files import make_private_dir, restrict_umask

PROG = "metaserver"


def read_options(argv: list[str]) -> MetaOptions:
    """Settings from flags, environment and file; ends the process when one is wrong."""
    try:
        return parse_options(
            MetaOptions,
            argv,
            os.environ,
            prog=PROG,
            process="meta",
            description="The metaserver: routes subjects to broker groups and receives registrations and heartbeats.",
        )
    except SettingError as error:
        exit_wrong(PROG, error)


def set_up_django(options: MetaOptions) -> None:
    """Just enough of Django for the models.

    Raises:
        SettingError: the database URL can't be understood.
    """
    import django
    from django.conf import settings

    from metaserver.database import database_settings

    settings.configure(
        INSTALLED_APPS=["metaserver"],
        DATABASES={"default": database_settings(options.database_url, options.data_dir)},
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()


def run(options: MetaOptions) -> int:
    """Run with Django set up; the exit code. Ends the process when a setting is wrong."""
    from metaserver.metaserver import Metaserver
    from metaserver.orm_repository import OrmRepository

    async def serve(stop: asyncio.Event, loop_pauses: LoopPauses) -> None:
        metaserver = Metaserver(options, OrmRepository(), Machine(loop_pauses=loop_pauses))
        metaserver.supervisor.watch_loop()
        try:
            await metaserver.start()
            loop_pauses.start()
            await metaserver.serve(stop)
        finally:
            await metaserver.close()
        metaserver.failure.check()

    try:
        return run_daemon(serve)
    except SettingError as error:
        exit_wrong(PROG, error)


def main(argv: list[str] | None = None) -> int:
    """Migrate when the database answers, then serve."""
    options = read_options(sys.argv[1:] if argv is None else argv)
    set_up_logging(options.log_level, options.log_format)
    restrict_umask()
    try:
        make_private_dir(options.data_dir)
        set_up_django(options)
    except SettingError as error:
        exit_wrong(PROG, error)
    from metaserver.database import migrate

    try:
        migrate()
    except SettingError as error:
        exit_wrong(PROG, error)
    try:
        return run(options)
    except OSError as error:
        sys.stderr.write(f"{PROG}: {error}\n")
        return FAILED


def end(code: int) -> None:
    """End the process, also while a call to a hanging database holds a thread, which Python would wait for."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    end(main())
