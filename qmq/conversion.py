"""Values of one dataclass as values of another one that has fields of the same names."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
else:
    T = TypeVar("T")


def convert(kind: type[T], source: object, /, **others: Any) -> T:
    """Return a value of a dataclass: its fields are `others`, and for the rest the attributes of `source` of the same names.

    A field that is neither raises AttributeError, also one with a default: a new field is not forgotten.
    """
    shared = {field.name: getattr(source, field.name) for field in fields(kind) if field.name not in others}
    return kind(**shared, **others)
