"""Base classes of all views: rights, actors, versions (ETag, If-Match), dry runs, idempotency, bounded query values."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar

from django.http import HttpResponseBase
from rest_framework import exceptions
from rest_framework.generics import GenericAPIView
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from api import downloads, idempotency
from api.authentication import address_of
from api.operations import check_inputs
from api.pagination import PAGE_MAX, CursorPages
from api.permissions import missing, require_recent_proof
from api.problems import Problem, invalid
from api.serializers.bodies import REASON_CHARS_MAX, Body, Row
from api.throttles import DownloadThrottle
from console.accounts.roles import OF_A_SUBJECT, Principal, Right
from console.http.requests import client_id, current_id
from console.models import IdempotencyKey
from metaserver import queries
from metaserver.services import changes
from metaserver.services.changes import Actor, Change, control_problem, text_problem

_ETAG = re.compile(r'(?:W/)?"v(\d{1,18})"')


def checked_reason(text: object) -> str:
    """Return a valid reason for the audit log, without surrounding spaces. Raises Problem 400."""
    if not isinstance(text, str) or len(text) > REASON_CHARS_MAX or "\x00" in text:
        raise invalid("reason", f"must be text of at most {REASON_CHARS_MAX} characters")
    if problem := control_problem(text):
        raise invalid("reason", problem)
    return text.strip()


class ApiView(GenericAPIView):  # type: ignore[type-arg]
    """Base of views that declare for each method the required right and, once for the code and the OpenAPI file, the shapes of
    body and answer. GET answers with `serializer_class`.
    """

    rights: ClassVar[Mapping[str, Right]] = {}
    bodies: ClassVar[Mapping[str, type[Body]]] = {}
    """Shapes of the bodies of changes, of those that take more than a reason."""
    answers: ClassVar[Mapping[str, type[Serializer[Any]]]] = {}
    """Shapes of the answers of changes, of those that answer with more, or other things, than `changed`."""
    is_list: ClassVar[bool] = False
    """Whether GET answers with a page of rows, each a `serializer_class`. POST makes one: 201, or 200 for a dry run."""
    proof_methods: ClassVar[frozenset[str]] = frozenset()
    """Methods that require a recently confirmed password or code."""
    versioned_methods: ClassVar[frozenset[str]] = frozenset({"PUT", "PATCH", "DELETE"})
    """Methods that compare `If-Match` with the version of the changed object."""
    checks_body: ClassVar[bool] = True
    """Whether unknown fields of the body are rejected before the view is called."""
    pagination_class = CursorPages
    ordering_paths: ClassVar[Mapping[str, str]] = {}
    """Database names of fields that have another name in answers, and therefore in `ordering_fields`."""
    filter_backends: Any = []
    http_method_names: ClassVar[list[str]] = ["get", "head", "post", "put", "patch", "delete"]  # type: ignore[misc]
    download_rows_max: ClassVar[int] = downloads.ROWS_MAX
    download_page_rows: ClassVar[int] = PAGE_MAX
    """Number of rows that a download reads at a time."""
    download: downloads.Download | None = None
    """The download of this request; None: the request is for a page."""
    _idempotency: IdempotencyKey | None = None
    _subjects: set[str]
    """Subjects whose rights are checked again before a stored answer is replayed."""

    # --- who asks ------------------------------------------------------------------------------------------------------

    @property
    def principal(self) -> Principal:
        """The authenticated caller."""
        principal = self.request.auth
        assert isinstance(principal, Principal)
        return principal

    @property
    def actor(self) -> Actor:
        """The caller, for the audit log and for ownership checks in services."""
        principal = self.principal
        return Actor(
            principal.name,
            address_of(self.request),
            current_id.get(),
            client_id.get(),
            teams=principal.bound_to,
            may_unmask=principal.has(Right.CHANGE_MASKING),
        )

    def require(self, right: Right, owner: str | None = None) -> None:
        """Raise 403 unless the caller has this right on subjects of this owner (None: unowned)."""
        if not self.principal.may(right, owner):
            raise exceptions.PermissionDenied(missing(self.principal, right, owner), "access.denied")

    def authorize(self, subjects: Iterable[str]) -> None:
        """Raise 403 unless the caller has the method's right on each of these subjects. Unknown subjects are left to the view."""
        right = self.rights[str(self.request.method)]
        if right in OF_A_SUBJECT:
            for owner in queries.owners_of(subjects).values():
                self.require(right, owner)

    # --- what is asked ---------------------------------------------------------------------------------------------------

    @property
    def dry_run(self) -> bool:
        """Whether the request is a dry run (`?dry_run=true`)."""
        return self.flag("dry_run")

    def flag(self, name: str) -> bool:
        """Return a boolean query parameter; False when it is absent."""
        text = self.request.query_params.get(name, "false")
        if text not in ("true", "false", "1", "0"):
            raise invalid(name, "must be true or false", text)
        return text in ("true", "1")

    def whole(
        self, name: str, default: int | None = None, *, minimum: int = 0, maximum: int = (1 << 63) - 1
    ) -> int | None:
        """Return an integer query parameter."""
        text = self.request.query_params.get(name)
        if not text:
            return default
        if not re.fullmatch(r"-?[0-9]{1,19}", text) or not minimum <= int(text) <= maximum:
            raise invalid(name, f"must be a whole number from {minimum} to {maximum}", text)
        return int(text)

    def number(self, name: str) -> float | None:
        """Return a numeric query parameter, whole where it is written so; None when it is absent."""
        text = self.request.query_params.get(name)
        if not text:
            return None
        if not re.fullmatch(r"-?[0-9]{1,19}(\.[0-9]{1,19})?", text):
            raise invalid(name, "must be a number such as 5 or 0.25", text)
        return float(text) if "." in text else int(text)

    def moment_ms(self, name: str) -> int | None:
        """Return an RFC 3339 query parameter (with zone) in milliseconds since the epoch."""
        text = self.request.query_params.get(name)
        if not text:
            return None
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                raise ValueError
            return int(moment.timestamp() * 1000)
        except (ValueError, OverflowError) as error:
            raise invalid(name, "must be a time with a time zone, such as 2026-01-31T12:00:00Z", text) from error

    @property
    def reason(self) -> str:
        """Return the `reason` of the body, for the audit log."""
        body = self.request.data
        return checked_reason(body.get("reason", "") if isinstance(body, dict) else "")

    @property
    def expected_version(self) -> int | None:
        """Return the version of `If-Match`; None when it is absent or `*`. Raises 400 for a malformed ETag."""
        given = self.request.headers.get("If-Match")
        if given is None or given.strip() == "*":
            return None
        found = _ETAG.fullmatch(given.strip())
        if found is None:
            raise Problem(400, "request.if_match_illegal", f'If-Match: {given[:60]!r} must be an ETag such as "v12"')
        return int(found.group(1))

    def body(self) -> dict[str, Any]:
        """Return the values of the body without its `reason`. Raises 400."""
        made = self.bodies[str(self.request.method)](data=self.request.data or {})
        made.is_valid(raise_exception=True)
        values = dict(made.validated_data)
        values.pop("reason", None)
        return values

    def expected_count(self, values: Mapping[str, Any]) -> int | None:
        """Return `expected` of the body of a change of many things; None in a dry run. Raises 400 without it."""
        found: int | None = values.get("expected")
        if found is None and not self.dry_run:
            raise invalid("expected", "is required: the number of matches that a dry run (dry_run=true) returned")
        return None if self.dry_run else found

    @property
    def arguments(self) -> changes.Request:
        """Return the arguments that services for changes take."""
        return {"actor": self.actor, "reason": self.reason, "dry_run": self.dry_run}

    @property
    def versioned_arguments(self) -> changes.VersionedRequest:
        """Return `arguments` plus the expected version, for versioned objects."""
        return {**self.arguments, "expected_version": self.expected_version}

    # --- what is answered ------------------------------------------------------------------------------------------------

    def shown(self, row: Any, shape: type[Row] | None = None, **context: Any) -> dict[str, Any]:
        """Return an object serialized by the view's serializer, or by another one."""
        made = shape or self.serializer_class
        assert made is not None
        data: dict[str, Any] = made(row, context={"view": self, **context}).data
        return data

    def listed(self, rows: Any = None, **context: Any) -> Response:
        """Return a page of the view's rows, or of these, filtered and ordered as the query requests."""
        assert self.serializer_class is not None
        found = self.filter_queryset(self.get_queryset()) if rows is None else rows
        shape = self.serializer_class(self.paginate_queryset(found), many=True, context={"view": self, **context})
        return self.get_paginated_response(shape.data)

    def one(self, row: Any, **context: Any) -> Response:
        """Return an answer with an object and its version as ETag."""
        return self.tagged(self.shown(row, **context), row.version)

    @staticmethod
    def tagged(body: Any, version: int, status: int = 200) -> Response:
        """Return an answer with data and a version as ETag."""
        return Response(body, status=status, headers={"ETag": f'"v{version}"'})

    def changed(self, change: Change) -> Response:
        """Return the answer to a change or to its dry run. A method that returns only a `Change` is answered so."""
        body = {
            "target": change.target,
            "dry_run": self.dry_run,
            "is_change": change.is_change,
            "before": change.before,
            "after": change.after,
            "version": str(change.version),
            "notes": [note.as_json() for note in change.notes],
        }
        status = 201 if self.is_list and self.request.method == "POST" and not self.dry_run else 200
        # What is gone, and what has no version, has no tag either.
        return self.tagged(body, change.version, status) if change.version else Response(body, status=status)

    def get_throttles(self) -> list[Any]:
        """Return the view's throttles; a download has one more, because it reads up to a hundred pages."""
        found: list[Any] = super().get_throttles()
        return [*found, DownloadThrottle()] if downloads.wanted(self.request) else found

    # --- downloads -------------------------------------------------------------------------------------------------------

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[Any, str]:
        """Ignore `Accept` for problems, which are always JSON, and for downloads, which have no renderer."""
        if request.method in ("GET", "HEAD") and ("format" in request.query_params or downloads.wanted(request)):
            return JSONRenderer(), JSONRenderer.media_type
        return super().perform_content_negotiation(request, force)

    def _downloaded(self, response: Response) -> HttpResponseBase:
        assert self.download is not None
        if response.status_code != 200:
            self.download.end()
            return response
        if not isinstance(response.data, dict) or not isinstance(response.data.get("results"), list):
            self.download.end()
            return self.handle_exception(invalid("format", "only lists can be exported; remove this parameter"))
        return self.download.response(response.data)

    # --- idempotency -----------------------------------------------------------------------------------------------------

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        self.download = None
        super().initial(request, *args, **kwargs)
        self._subjects = set()
        for name, value in kwargs.items():
            if isinstance(value, str) and text_problem(value):
                raise exceptions.NotFound(f"{name} {value[:80]!r}: {text_problem(value)}")
        check_inputs(request, with_body=self.checks_body)
        kind = downloads.wanted(request)
        if kind is not None:
            self.download = downloads.Download(self, request, kind)
            self.download.begin()
        if request.method in self.proof_methods:
            require_recent_proof(request)
        if idempotency.has_key(request):
            self._subjects.update(self._named_subjects())
            self.authorize(self._subjects)
            self._idempotency = idempotency.claim(request, self.authorize)

    def _named_subjects(self) -> list[str]:
        """Return the subjects named by the URL and the body."""
        body = self.request.data
        given = (self.kwargs.get("subject"), body.get("subject") if isinstance(body, dict) else None)
        return [name for name in given if isinstance(name, str) and name and not text_problem(name)]

    def note_subject(self, subject: str) -> None:
        """Record a subject that neither the URL nor the body names: replaying the answer requires the right on it too."""
        self._subjects.add(subject)

    def check_permissions(self, request: Request) -> None:
        """Answer an unsupported method with 405 only to authenticated callers."""
        method = str(request.method).lower()
        is_known = isinstance(request.auth, Principal)
        if is_known and (method not in self.http_method_names or not hasattr(self, method)):
            self.http_method_not_allowed(request)
        super().check_permissions(request)

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, idempotency.Replayed):
            return exc.response
        try:
            return super().handle_exception(exc)
        except BaseException:
            if self.download is not None:
                self.download.end()
            # No answer: the key is free for another try.
            if self._idempotency is not None:
                row, self._idempotency = self._idempotency, None
                idempotency.release(row)
            raise

    def finalize_response(self, request: Request, response: Response | Change, *args: Any, **kwargs: Any) -> Response:
        if isinstance(response, Change):
            response = self.changed(response)
        given = response if self.download is None else self._downloaded(response)
        # REST framework takes any answer of Django here; its types say less.
        final = super().finalize_response(request, given, *args, **kwargs)  # type: ignore[arg-type]
        if self._idempotency is not None:
            row, self._idempotency = self._idempotency, None
            idempotency.store_answer(row, response, self._subjects)
        final.headers.setdefault("Cache-Control", "no-store")
        return final
