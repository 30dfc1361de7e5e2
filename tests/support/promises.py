"""The failure of a test that saw the product break a promise."""

from collections.abc import Iterator
from contextlib import contextmanager


class PromiseBroken(AssertionError):
    """A message was lost, made up, delivered twice or too early, an action was allowed that is forbidden, or an answer was a 500.

    Such a failure is never put down to a slow machine: `make test` does not rerun the test.
    """


@contextmanager
def judging() -> Iterator[None]:
    """Turn a failed assertion inside the block, or inside a function it decorates, into a PromiseBroken."""
    try:
        yield
    except PromiseBroken:
        raise
    except AssertionError as error:
        raise PromiseBroken(str(error)) from error


def is_broken_promise(error: BaseException | None) -> bool:
    """Return whether an exception is a PromiseBroken, was caused by one, or is a group that contains one."""
    waiting = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, PromiseBroken):
            return True
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
    return False
