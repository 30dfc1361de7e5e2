"""Serializers of saved filters."""

from rest_framework import serializers

from api.schema import ChangeSerializer
from api.serializers.bodies import Reason, Row
from console.models import SavedFilter
from console.saved_filters import NAME_CHARS_MAX, TEXT_CHARS_MAX


class NewSavedFilter(Reason):
    """A filter to save."""

    name = serializers.CharField(max_length=NAME_CHARS_MAX)
    filter = serializers.CharField(max_length=TEXT_CHARS_MAX, help_text="as the parameter `filter` of a search")
    team = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=60,
        help_text="the team that shares it; null: only the caller sees it",
    )


class SavedFilterRow(Row):
    """A saved filter of a subject."""

    id = serializers.CharField()
    name = serializers.CharField()
    filter = serializers.CharField(source="text")
    team = serializers.SerializerMethodField(help_text="the team that shares it; null: only the caller sees it")
    by = serializers.CharField(source="made_by")
    created_at = serializers.DateTimeField()

    def get_team(self, row: SavedFilter) -> str | None:
        """The team's name."""
        return row.team or None


class MadeSavedFilter(ChangeSerializer):
    """The saved filter."""

    id = serializers.CharField(allow_null=True, help_text="null in a dry run")
