"""The sign-in endpoints: which of allauth's URLs are open, and which requests they accept."""

import logging

import redis
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse

from console.http.middleware import Middleware
from console.http.problems import problem_response

logger = logging.getLogger("qmq.accounts")

ROOT = "/_allauth/"
BROWSER = f"{ROOT}browser/v1/"
REDIRECT = "auth/provider/redirect"
OPEN = frozenset(
    {
        "config",
        "auth/session",
        "auth/login",
        "auth/reauthenticate",
        "auth/2fa/authenticate",
        "auth/2fa/reauthenticate",
        REDIRECT,
        "account/authenticators",
        "account/authenticators/totp",
        "account/authenticators/recovery-codes",
        "account/password/change",
    }
)
"""Everything else of allauth stays shut: signing up, addresses and resets by mail are for sites whose users come by
themselves; here administrators make them."""
SIGN_IN_PAGE = "/sign-in"
CHANGES = ("POST", "PUT", "PATCH", "DELETE")


class SignInDoors(Middleware):
    """Closes unused endpoints; accepts JSON only (a form of another site can send text/plain); 503 without Redis."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith(ROOT):
            return self._get_response(request)
        address = request.path.removeprefix(BROWSER)
        if address not in OPEN:
            return problem_response(404, "request.not_found", "There is no resource at this address.")
        is_form = address == REDIRECT  # a page's own form: the browser itself has to go to the identity provider
        has_body = request.META.get("CONTENT_LENGTH") not in (None, "", "0")
        if request.method in CHANGES and not is_form and has_body and request.content_type != "application/json":
            return problem_response(415, "request.unsupported_media_type", "The Content-Type must be application/json.")
        response = self._get_response(request)
        if is_form and response.status_code == 302 and "application/json" in request.headers.get("Accept", ""):
            # The pages' policy lets no form lead to another site, by no redirect either: their script asks for the
            # address and goes there itself, wherever the identity provider sends the browser then.
            response = JsonResponse({"location": response.headers["Location"]})
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Reject attempts that can't be counted, so that guesses stay limited while Redis is unavailable. If the identity
        provider is unreachable, redirect to the sign-in page instead of an error page.
        """
        is_on_the_way = request.path.startswith((BROWSER + REDIRECT, "/accounts/"))
        if isinstance(error, redis.RedisError) and request.path.startswith((ROOT, "/accounts/")):
            logger.warning("nobody can sign in, Redis does not answer: %s", error)
            return problem_response(
                503, "accounts.limits_away", "Sign-in attempts can't be counted at the moment. Try again shortly."
            )
        if isinstance(error, OSError) and is_on_the_way:  # what requests raises are OSErrors
            logger.warning("the identity provider does not answer: %s", error)
            return HttpResponseRedirect(f"{SIGN_IN_PAGE}?error=provider_away")
        return None
