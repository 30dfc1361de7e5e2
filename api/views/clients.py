"""/clients/ and /flow/."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.downloads import ROWS_OF_NODES_MAX
from api.live_pages import LivePages
from api.problems import invalid
from api.serializers import clients as shapes
from console.accounts.roles import Right
from console.cluster.clients import ClientRole, ClientRow, clients
from console.reports import overview
from console.reports.flow import APPLICATIONS_MAX, GROUPS_MAX, SUBJECTS_MAX, flow
from metaserver import queries
from metaserver.services.changes import text_problem


def _value(row: Mapping[str, Any], field: str) -> Any:
    return row["at_least"] if field == "rate" else row[field]


PAGES = LivePages(
    ("role", "subject", "group", "app", "host", "client_id"),
    ("-rate", "app", "subject", "group", "host", "connections", "role"),
    _value,
)


class ClientsView(ApiView):
    """List producers and consumers: the connections of all broker groups, and clients that registered recently."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.ClientPage
    download_rows_max = ROWS_OF_NODES_MAX
    download_page_rows = ROWS_OF_NODES_MAX
    """Return all rows at once, because numbers change between pages."""

    @extend_schema(
        operation_id="clients_list",
        parameters=[
            OpenApiParameter("role", str, enum=list(ClientRole)),
            OpenApiParameter("app", str, description="Only this application."),
            OpenApiParameter("subject", str, description="Only this subject."),
            OpenApiParameter("group", str, description="Only this consumer group."),
            OpenApiParameter(
                "search",
                str,
                description="Case-insensitive substring of application, subject, group, host, ID or version.",
            ),
            OpenApiParameter("differs", bool, description="Whether members of its group subscribe differently."),
            *PAGES.parameters,
        ],
    )
    def get(self, request: Request) -> Response:
        subject = request.query_params.get("subject") or None
        if subject is not None and text_problem(subject):
            raise invalid("subject", text_problem(subject))
        is_wanted = self._filter()
        found = clients(subject)
        rows = [_shown(row) for row in found.rows if is_wanted(row)]
        page, following = PAGES.page(self, rows)
        owners = queries.owners_of(row["subject"] for row in page)
        owned = [{**row, "owner": owners.get(row["subject"])} for row in page]
        return Response(
            {
                "results": list(shapes.ClientRow(owned, many=True).data),
                "next": following,
                "unreachable": found.unreachable,
                "left_out": found.left_out,
                "differing": [asdict(group) for group in found.differing],
            }
        )

    def _filter(self) -> Callable[[ClientRow], bool]:
        """Whether a client matches the query's filters."""
        query = self.request.query_params
        role, app, group, search = (
            query.get("role"),
            query.get("app"),
            query.get("group"),
            query.get("search", "").lower(),
        )
        if role and role not in list(ClientRole):
            raise invalid("role", f"must be one of {', '.join(ClientRole)}", role)
        differs = self.flag("differs") if query.get("differs") else None

        def is_wanted(row: ClientRow) -> bool:
            texts = (row.app, row.subject, row.group, row.host, row.client_id, *row.agents)
            return (
                (not role or row.role == role)
                and (not app or row.app == app)
                and (not group or row.group == group)
                and (differs is None or bool(row.differs) == differs)
                and (not search or any(search in text.lower() for text in texts))
            )

        return is_wanted


def _shown(row: ClientRow) -> dict[str, Any]:
    rate = row.rate
    return asdict(row) | {
        "connections": len(row.addresses),
        "rate": None if row.missing else rate,
        "at_least": rate,
    }


class FlowView(ApiView):
    """Where messages flow: the busiest applications, subjects and consumer groups, and how much between them."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.FlowPicture

    @extend_schema(
        operation_id="flow",
        description=f"Where messages flow: the {APPLICATIONS_MAX} busiest applications, {SUBJECTS_MAX} subjects and {GROUPS_MAX} "
        "consumer groups, and how much between them. The rest of each is one box.",
    )
    def get(self, request: Request) -> Response:
        return Response(self.shown(flow(overview.numbers())))
