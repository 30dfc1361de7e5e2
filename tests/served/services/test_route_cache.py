"""All routes in memory: what a refresh loads is counted, and what it holds is what the database holds."""

import random

import pytest

from console.placement.route_cache import RouteCache
from metaserver import domain, queries
from metaserver.models import MetadataChange, Subject, SubjectRoute
from metaserver.services import audit, routes
from metaserver.services.changes import METASERVER
from tests.served.metaserver.reading import rows_loaded
from tests.support.console.metadata import ACTOR, broker_group, route

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def agree(cache: RouteCache) -> None:
    """What the cache counts is what a new one counts."""
    assert sorted(cache.routes(), key=lambda item: item.subject) == sorted(
        queries.route_snapshots(), key=lambda item: item.subject
    )
    assert cache.served_by_each() == RouteCache().served_by_each()


def test_a_changed_route_of_10000_loads_one_row_and_no_change_loads_none() -> None:
    for name in ("g1", "g2"):
        broker_group(name)
    route("orders", "g1")
    Subject.objects.bulk_create([Subject(name=f"s{n:05d}") for n in range(10_000)])
    rows = Subject.objects.exclude(name="orders")
    SubjectRoute.objects.bulk_create([SubjectRoute(subject=row, broker_groups=["g1"], version=1) for row in rows])
    cache = RouteCache()
    assert cache.served_by_each() == {"g1": (10_001, 0)}
    routes.move("orders", ["g2"], actor=ACTOR, reason="")
    with rows_loaded() as loaded:
        assert cache.served_by_each() == {"g1": (10_001, 1), "g2": (1, 1)}
    assert (loaded["SubjectRoute"], loaded["Subject"]) == (1, 1)
    with rows_loaded() as loaded:
        cache.served_by_each()
        assert len(cache.routes()) == 10_001
    assert loaded.total() == 0


def test_changes_deletions_and_everything_else_come_through() -> None:
    for name in ("g1", "g2", "g3"):
        broker_group(name)
    cache, rng, versions = RouteCache(), random.Random(1), dict[str, int]()
    agree(cache)
    for _ in range(60):
        subject, groups = f"s{rng.randrange(8)}", rng.sample(["g1", "g2", "g3"], rng.randrange(1, 4))
        if subject in versions and rng.random() < 0.3:
            del versions[subject]
            Subject.objects.filter(name=subject).delete()
            audit.record(actor=ACTOR, action="subject.delete", target=subject, subject=subject)
        else:
            versions[subject] = versions.get(subject, 0) + 1
            routes.save_route(domain.Route(subject, tuple(groups), versions[subject], 0), actor=METASERVER, reason="")
        if rng.random() < 0.5:
            agree(cache)
    agree(cache)


def test_another_database_under_the_same_numbers_is_loaded_as_a_whole() -> None:
    broker_group("g1")
    route("orders", "g1")
    cache = RouteCache()
    assert cache.served_by_each() == {"g1": (1, 0)}
    changes = list(MetadataChange.objects.values_list("number", flat=True))
    MetadataChange.objects.all().delete()
    SubjectRoute.objects.update(broker_groups=["g2"])
    MetadataChange.objects.bulk_create([MetadataChange(number=number, subject="mail") for number in changes])
    assert cache.served_by_each() == {"g2": (1, 0)}


def test_a_database_without_changes_is_loaded_once() -> None:
    subject = Subject.objects.create(name="orders")
    SubjectRoute.objects.create(subject=subject, broker_groups=["g1"], version=1)
    assert not MetadataChange.objects.exists()
    cache = RouteCache()
    assert cache.served_by_each() == {"g1": (1, 0)}
    with rows_loaded() as loaded:
        assert cache.served_by_each() == {"g1": (1, 0)}
    assert loaded.total() == 0
    broker_group("g2")
    routes.move("orders", ["g2"], actor=ACTOR, reason="")
    agree(cache)
