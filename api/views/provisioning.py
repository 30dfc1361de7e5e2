"""/apply/: a document of teams, subjects and consumer groups, previewed or applied."""

from typing import Any

import yaml
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView, checked_reason
from api.parsers import BoundedJsonParser, check_text, read_bounded
from api.serializers.bodies import Strings
from console.accounts.roles import Right
from metaserver.services import apply as service
from metaserver.services.documents import GROUP_KEYS, GROUPS, KEYS, names_teams

DOCUMENT_BYTES_MAX = 1 << 20
DEPTH_MAX = 20
NUMBER_CHARS_MAX = 100
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if available: the Python loader takes ten seconds for a document of the maximum size."""


class _Loader(_SafeLoader):  # type: ignore[misc]
    """Safe loader that rejects duplicate keys, of which PyYAML would silently keep the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(keys) != len(set(keys)):
            twice = next(value for tag, value in keys if keys.count((tag, value)) > 1)
            raise yaml.YAMLError(f"{twice[:60]!r} occurs twice in one mapping, line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)


def _bounded(construct: str) -> Any:
    """Return a constructor of numbers that rejects long texts: the time to convert them grows with the square of their length."""

    def constructed(loader: Any, node: Any) -> Any:
        if len(node.value) > NUMBER_CHARS_MAX:
            what = f"a number of {len(node.value)} characters, at most {NUMBER_CHARS_MAX} are allowed; quote texts"
            raise yaml.YAMLError(f"{what}, line {node.start_mark.line + 1}")
        return getattr(loader, construct)(node)

    return constructed


_Loader.add_constructor("tag:yaml.org,2002:int", _bounded("construct_yaml_int"))
_Loader.add_constructor("tag:yaml.org,2002:float", _bounded("construct_yaml_float"))


def read_yaml(data: bytes) -> Any:
    """Parse a document.

    Raises:
        yaml.YAMLError, ValueError: it is no YAML, names Python objects, uses aliases (a few of them make gigabytes out
            of a line), or is nested too deep.
    """
    depth = 0
    for event in yaml.parse(data, _SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not allowed in a document")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_MAX:
                raise yaml.YAMLError(f"more than {DEPTH_MAX} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return yaml.load(data, _Loader)


class YamlParser(BaseParser):
    """application/yaml."""

    media_type = "application/yaml"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        data = read_bounded(stream, DOCUMENT_BYTES_MAX, parser_context)
        try:
            found = read_yaml(data)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise ParseError(f"The YAML can't be parsed: {str(error)[:500]}") from error
        check_text(found)
        return found


class Document(serializers.Serializer):  # type: ignore[type-arg]
    """The desired state. Objects and fields that the document omits stay unchanged."""

    teams = serializers.ListField(
        child=serializers.JSONField(), required=False, allow_null=True, help_text=", ".join(KEYS["teams"])
    )
    subjects = serializers.ListField(
        child=serializers.JSONField(),
        required=False,
        allow_null=True,
        help_text=", ".join(f"{key} ({', '.join(GROUP_KEYS)})" if key == GROUPS else key for key in KEYS["subjects"]),
    )


class StepShape(serializers.Serializer):  # type: ignore[type-arg]
    """One object of a document."""

    kind = serializers.ChoiceField(choices=["team", "subject", "consumer_group"])
    action = serializers.ChoiceField(choices=["create", "update", "archive", "restore", "keep"])
    target = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class PreviewShape(serializers.Serializer):  # type: ignore[type-arg]
    """Result of a document; in a dry run, its preview."""

    dry_run = serializers.BooleanField()
    is_change = serializers.BooleanField()
    steps = StepShape(many=True)
    drift = Strings(help_text="consumer groups of its subjects that are not in the document")


class ApplyView(ApiView):
    """Apply a document completely or not at all; `dry_run` returns the preview. Applying it again changes nothing."""

    rights = {"PUT": Right.CHANGE_SUBJECTS}
    answers = {"PUT": PreviewShape}
    versioned_methods = frozenset()
    # The service names unknown fields together with all other problems.
    checks_body = False
    parser_classes = [BoundedJsonParser, YamlParser]

    @extend_schema(
        operation_id="apply",
        request=Document,
        parameters=[
            OpenApiParameter(
                "reason", OpenApiTypes.STR, description="Reason for the audit log. Default: `provisioning`."
            )
        ],
    )
    def put(self, request: Request) -> Response:
        if names_teams(request.data):
            self.require(Right.CHANGE_ACCOUNTS)
        preview = service.apply(
            request.data, actor=self.actor, reason=self.reason or "provisioning", dry_run=self.dry_run
        )
        steps = StepShape(preview.steps, many=True).data
        return Response(
            {"dry_run": self.dry_run, "is_change": bool(preview.changes), "steps": steps, "drift": list(preview.drift)}
        )

    @property
    def reason(self) -> str:
        """Return `?reason=`, because the body contains only the document."""
        return checked_reason(self.request.query_params.get("reason", ""))
