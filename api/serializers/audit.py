"""The shape of audit entries."""

from rest_framework import serializers


class AuditRow(serializers.Serializer):  # type: ignore[type-arg]
    """A change somebody made."""

    id = serializers.CharField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    action = serializers.CharField()
    target = serializers.CharField()
    reason = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    address = serializers.CharField()
    request_id = serializers.CharField()
    client_request_id = serializers.CharField(allow_null=True, help_text="the caller's own X-Request-Id, unchecked")
    digest = serializers.CharField(help_text="covers this entry and the digest of the one before")


class Verdict(serializers.Serializer):  # type: ignore[type-arg]
    """What following the chain found."""

    is_whole = serializers.BooleanField(help_text="everything in this stretch is as it was written")
    checked = serializers.IntegerField()
    last_id = serializers.CharField(help_text="to be sent as ?after= for the next stretch")
    is_end = serializers.BooleanField(help_text="whether the newest entry was reached")
    broken_id = serializers.CharField(allow_null=True)
    problem = serializers.CharField(allow_blank=True)
