"""/subjects/{subject}/masking-preview/: what masking rules would hide."""

import json

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.problems import invalid
from api.serializers import messages as shapes
from api.views.messages import ReadingView, message_row
from console.accounts.roles import Right
from console.cluster import messages as service
from console.cluster.masking import masks_from
from metaserver import queries
from metaserver.services.masking import MASKING
from qmq.protocol.masking.rules import READER_ROLES

PREVIEW_CHARS_MAX = 8_000
"""Of masking rules as JSON in an address."""


class MaskingPreviewView(ReadingView):
    """Show the newest message of a subject as a role would see it with other masking rules."""

    rights = {"GET": Right.CHANGE_MASKING}
    serializer_class = shapes.MaskingPreview

    @extend_schema(
        operation_id="subjects_masking_preview",
        parameters=[
            OpenApiParameter("role", OpenApiTypes.STR, required=True, enum=READER_ROLES),
            OpenApiParameter(
                "masking", OpenApiTypes.STR, required=True, description="The rules as JSON, as the subject has them."
            ),
        ],
    )
    def get(self, request: Request, subject: str) -> Response:
        self.require(Right.READ_MESSAGES, self.owner(subject))
        role = self.text("role")
        if role not in READER_ROLES:
            raise invalid("role", f"must be one of {', '.join(READER_ROLES)}")
        try:
            rules = json.loads(self.text("masking", PREVIEW_CHARS_MAX) or "")
        except (ValueError, RecursionError) as error:
            raise invalid("masking", "must be the rules as JSON") from error
        if problem := MASKING.problem(rules):
            raise invalid("masking", problem)
        (display,) = queries.display_of((subject,)).values()
        masks = masks_from(subject, display._replace(masking=MASKING.stored(rules)), role)
        found = service.read_page(subject, service.Start(newest=True), limit=1, masks=masks)
        self.note_reading(subject, list(found.rows), masked=False)
        message = next((message_row(row, masked=False) for row in found.rows), None)
        return Response({"message": message, "unreachable": found.unreachable})
