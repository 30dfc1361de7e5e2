"""One Spark session and one small system of real nodes for all tests of this folder: starting them takes seconds."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from qmq.private_files import UMASK
from spark_analytics.java import JavaMissing
from tests.served.spark.reading import Read, read_table
from tests.served.spark.sessions import as_in_production, quick_session
from tests.served.spark.shop import Shop
from tests.support.servers.system import System

TEST_SECONDS_MAX = 600


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session that is quick with few rows, stopped with the run. Its JVM has the umask of the product's jobs."""
    scratch = tmp_path_factory.mktemp("spark")
    before = os.umask(UMASK)
    try:
        session = quick_session(scratch)
    except JavaMissing as error:
        pytest.fail(str(error))
    finally:
        os.umask(before)
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One database is enough here: rows are written by services that tests/served/services runs on each. And tests beside
    these come first (they are nice), so that a minute of work may take several."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TEST_SECONDS_MAX))
            item.own_markers = [mark for mark in item.own_markers if mark.name != "uses_database"]


@pytest.fixture
def product_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, running queries as the product's does."""
    with as_in_production(spark):
        yield spark


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A metaserver, two broker groups and a delay group with some traffic on them. Tests read only."""
    with System(tmp_path_factory.mktemp("shop"), delays=1) as system:
        system.start()
        yield Shop.open(system)


@pytest.fixture
def read(spark: SparkSession, shop: Shop) -> Read:
    """Reads a table of the shop: `read("index", subjects="orders")`."""
    return partial(read_table, spark, shop.system.meta_url)
