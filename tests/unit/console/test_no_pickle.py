"""No value that another process can write is ever unpickled: unpickling runs code of the writer's choice."""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import kombu.serialization
import pytest
from celery.beat import PersistentScheduler, Scheduler
from django.core.cache import CacheHandler
from django.core.cache.backends.redis import RedisCache, RedisCacheClient
from django.utils.module_loading import import_string

from console import settings
from console.cache import JsonRedisCache, JsonSerializer
from console.celery import app
from tests.support.servers.processes import PROJECT

PACKAGES = (
    "qmq",
    "qmq_node",
    "broker_node",
    "delay_node",
    "metaserver",
    "console",
    "api",
    "spark_analytics",
)
UNSAFE_MODULES = frozenset(
    {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "shelve", "marshal", "joblib", "jsonpickle"}
)
CELERY_CONTENT = ("accept_content", "result_accept_content")
CELERY_SERIALIZERS = ("task_serializer", "result_serializer", "event_serializer")


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def values(setting: object) -> Iterator[object]:
    """Everything in a setting, keys and elements of collections included."""
    if isinstance(setting, dict):
        for key, value in setting.items():
            yield from (key, *values(value))
    elif isinstance(setting, list | tuple | set | frozenset):
        for value in setting:
            yield from values(value)
    else:
        yield setting


def test_no_module_of_ours_imports_a_serializer_that_runs_code() -> None:
    found = {str(path) for path in sources() if UNSAFE_MODULES.intersection(imported(ast.parse(path.read_bytes())))}
    assert len(sources()) > 100
    assert found == set()


def test_no_setting_names_one() -> None:
    names = [name for name in dir(settings) if name.isupper()]
    assert len(names) > 50
    found = [name for name in names if any("pickle" in str(value).lower() for value in values(getattr(settings, name)))]
    assert found == []


@pytest.mark.parametrize("alias", settings.CACHES)
def test_every_cache_keeps_json(alias: str) -> None:
    # Django's other backends, those in memory and on disk included, pickle without asking.
    cache = CacheHandler(settings.CACHES)[alias]
    assert isinstance(cache, JsonRedisCache)
    assert isinstance(cache._cache._serializer, JsonSerializer)


def test_a_cache_of_ours_keeps_json_whatever_its_options_say() -> None:
    cache = JsonRedisCache(["redis://127.0.0.1:1/0"], {"OPTIONS": {"serializer": "builtins.repr"}})
    assert isinstance(cache._cache._serializer, JsonSerializer)


def test_ours_reads_values_at_all_places_where_django_does() -> None:
    # A release of Django that reads values elsewhere too has to be looked at: there a forged value would be an error.
    readers = {name for name, member in inspect.getmembers(RedisCacheClient) if "loads(" in _source(member)}
    assert readers == {"get", "get_many"}
    assert readers <= set(vars(JsonRedisCache))
    assert readers <= set(vars(RedisCache))


def _source(member: object) -> str:
    return inspect.getsource(member) if inspect.isfunction(member) else ""


def test_celery_takes_and_sends_json_only() -> None:
    for name in CELERY_CONTENT:
        assert list(app.conf[name]) == ["json"], name
    for name in CELERY_SERIALIZERS:
        assert app.conf[name] == "json", name
    explicit = {f"CELERY_{name.upper()}" for name in (*CELERY_CONTENT, *CELERY_SERIALIZERS)}
    assert explicit <= set(dir(settings)), "none of these rests on a default"


def test_celery_takes_no_remote_commands() -> None:
    # Whoever can write to Redis could stop workers, or make their pools as large as memory allows.
    assert app.conf.worker_enable_remote_control is False


def test_beat_keeps_no_file() -> None:
    # The default scheduler's file is a shelf, which is pickled.
    module, _, name = settings.CELERY_BEAT_SCHEDULER.partition(":")
    scheduler = getattr(import_module(module), name)
    assert issubclass(scheduler, Scheduler)
    assert not issubclass(scheduler, PersistentScheduler)


def test_the_serializers_of_celery_refuse_pickles() -> None:
    for name in ("pickle", "application/x-python-serialize"):
        with pytest.raises(kombu.serialization.ContentDisallowed):
            kombu.serialization.loads(b"\x80\x04N.", name, "binary", accept=app.conf.accept_content)


def test_sessions_are_signed_json() -> None:
    assert settings.SESSION_SERIALIZER == "django.contrib.sessions.serializers.JSONSerializer"
    store = import_string(f"{settings.SESSION_ENGINE}.SessionStore")()
    assert store.decode(store.encode({"a": 1})) == {"a": 1}
    assert type(store.serializer()).__module__ == "django.core.signing"
