"""The failure of a test that saw the product break a promise."""


class PromiseBroken(AssertionError):
    """A message was lost, made up, delivered twice or too early, an action was allowed that is forbidden, or an answer was a 500.

    Such a failure is never put down to a slow machine: `make test` does not rerun the test.
    """


def promise(is_kept: object, text: str) -> None:
    """Fail the test unless the promise was kept; `text` says what happened instead.

    Raises:
        PromiseBroken: `is_kept` is false.
    """
    if not is_kept:
        raise PromiseBroken(text)


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
