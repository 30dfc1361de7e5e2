"""Filters of lists that refuse what they don't understand: a list that quietly leaves a filter out answers something else."""

from typing import Any

import django_filters
from django import forms


class _TruthField(forms.NullBooleanField):
    """true or false; anything else is a mistake."""

    def to_python(self, value: Any) -> bool | None:  # type: ignore[override]
        if value in (None, ""):
            return None
        found = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
        if found is None:
            raise forms.ValidationError("true or false is needed")
        return found


class TruthFilter(django_filters.BooleanFilter):  # type: ignore[misc]
    """A truth value of the query."""

    field_class = _TruthField

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("widget", forms.TextInput)
        super().__init__(*args, **kwargs)
