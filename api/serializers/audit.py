"""Serializers of the audit log."""

from rest_framework import serializers

from api.serializers.bodies import NullText, Row
from api.serializers.reasons import WhyChanged
from metaserver.services.audit import AuditVerdict


class AuditRow(Row):
    """A recorded change or message read."""

    id = serializers.CharField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    action = serializers.CharField()
    target = serializers.CharField()
    reason = serializers.CharField()
    why = WhyChanged(source="*")
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    address = serializers.CharField()
    request_id = serializers.CharField()
    client_request_id = NullText(help_text="X-Request-Id sent by the client, not verified")
    digest = serializers.CharField(help_text="hash of this entry and of the digest of the previous entry")


class Verdict(Row):
    """Result of a verification of the hash chain."""

    is_whole = serializers.SerializerMethodField(help_text="all entries of this range are unchanged")
    checked = serializers.IntegerField()
    last_id = serializers.CharField(help_text="pass it as ?after= to verify the next range")
    is_end = serializers.BooleanField(help_text="whether the latest entry was reached")
    broken_id = serializers.CharField(allow_null=True)
    problem = serializers.CharField(allow_blank=True)

    def get_is_whole(self, verdict: AuditVerdict) -> bool:
        """Whether the range is intact."""
        return verdict.problem == ""
