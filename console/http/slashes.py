"""Addresses without their last slash."""

from django.http import HttpRequest
from django.middleware.common import CommonMiddleware


class SlashMiddleware(CommonMiddleware):
    """Redirects to the address with the slash, for GET and HEAD only: clients repeat a redirected POST as a GET, so a change would
    be answered 200 without having been made. Changes get 404, which names the right address (`api.problems.not_found`).
    """

    def should_redirect_with_slash(self, request: HttpRequest) -> bool:
        return request.method in ("GET", "HEAD") and bool(super().should_redirect_with_slash(request))
