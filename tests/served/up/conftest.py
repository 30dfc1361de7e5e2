"""One whole system as `manage.py up` starts it, over the folder of an earlier version."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.servers.up import Up


@pytest.fixture(scope="package")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    found = Up(folder)
    before = os.umask(0o022)
    try:
        (found.data_dir / "meta").mkdir(parents=True)
        with closing(sqlite3.connect(found.data_dir / "meta/meta.sqlite3")) as connection:
            connection.execute("PRAGMA user_version = 0")
        (found.data_dir / "lake/index").mkdir(parents=True)
        (found.data_dir / "lake/index/old.parquet").write_bytes(b"")
        (found.data_dir / "meta/meta.sqlite3").chmod(0o644)
        assert stat.S_IMODE(found.data_dir.stat().st_mode) == 0o755
        for name in ("QMQ_REDIS_URL", "QMQ_SECRET_KEY"):
            found.environment.pop(name, None)
        found.start()
    finally:
        os.umask(before)
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="package")
def token(up: Up) -> str:
    return up.token("read", "admin")
