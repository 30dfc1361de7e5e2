"""Watching methods of the product while a schedule runs."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Hook:
    """A method, and what is called after it with the same arguments, or before it."""

    owner: type
    name: str
    then: Callable[..., object]
    is_before: bool = False


@contextmanager
def hooked(hooks: Iterable[Hook]) -> Iterator[None]:
    """Call what the hooks say, until the end of the block."""
    originals = [(hook.owner, hook.name, getattr(hook.owner, hook.name)) for hook in hooks]
    for hook in hooks:
        setattr(hook.owner, hook.name, _with(hook, getattr(hook.owner, hook.name)))
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def _with(hook: Hook, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        if hook.is_before:
            hook.then(*arguments, **named)
        found = original(*arguments, **named)
        if not hook.is_before:
            hook.then(*arguments, **named)
        return found

    return call
