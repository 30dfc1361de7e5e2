"""Serializers of saved filters."""

from rest_framework import serializers

from api.schema import ChangeSerializer
from api.serializers.bodies import NullText, Reason, Row
from console.saved_filters import SAVED_FILTER


class SavedFilterChange(Reason):
    """What to change of a saved filter."""

    rules = SAVED_FILTER.fields


class NewSavedFilter(SavedFilterChange):
    """A filter to save; without a team only the caller sees it."""

    needed = ("name", "filter")


class SavedFilterRow(Row):
    """A saved filter of a subject."""

    id = serializers.CharField()
    name = serializers.CharField()
    filter = serializers.CharField()
    team = NullText(help_text="the team that shares it; null: only the caller sees it")
    is_team_deleted = serializers.BooleanField(
        help_text="whether the team is gone; only administrators see such filters"
    )
    by = serializers.CharField(source="made_by", help_text="who saved it")
    version = serializers.CharField()
    created_at = serializers.DateTimeField()


class MadeSavedFilter(ChangeSerializer):
    """The saved filter."""

    id = serializers.CharField(allow_null=True, help_text="null in a dry run")
