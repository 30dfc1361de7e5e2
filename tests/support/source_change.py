"""class SourceChange: the product with one place changed, to see that a test notices it."""

import inspect
import linecache
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType


class NotApplicable(Exception):
    """The place that a breakage changes is not as it was: adapt the breakage."""


@dataclass(frozen=True)
class SourceChange:
    """One change of one function."""

    name: str
    where: str
    """`module:function` or `module:Class.method`."""
    old: str
    """Text of its source that occurs there once."""
    new: str

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The product with this change."""
        module_name, _, path = self.where.partition(":")
        module = import_module(module_name)
        owner: object = module
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        original = inspect.getattr_static(owner, name)
        broken = self._compiled(module, original, name)
        places = [owner] if owner is not module else _importers(name, original)
        for place in places:
            setattr(place, name, broken)
        try:
            yield
        finally:
            for place in places:
                setattr(place, name, original)

    def _compiled(self, module: ModuleType, original: object, name: str) -> object:
        plain = original.fget if isinstance(original, property) else inspect.unwrap(original)  # type: ignore[arg-type]
        if plain.__globals__ is not vars(module):  # type: ignore[union-attr]
            raise NotApplicable(f"{self.name}: {self.where} is of the module {plain.__module__}")
        source = textwrap.dedent(inspect.getsource(plain))  # type: ignore[arg-type]
        if source.count(self.old) != 1:
            raise NotApplicable(f"{self.name}: {self.old!r} is {source.count(self.old)} times in {self.where}")
        changed, scope = source.replace(self.old, self.new), dict[str, object]()
        file_name = f"<{self.name}: {self.old}>"
        # A further change of the same function reads its source again.
        linecache.cache[file_name] = len(changed), None, changed.splitlines(keepends=True), file_name
        exec(compile(changed, file_name, "exec"), vars(module), scope)
        return scope[name]


def _importers(name: str, original: object) -> list[object]:
    """The modules that have a function under its name."""
    modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    return [module for module in modules if vars(module).get(name) is original]
