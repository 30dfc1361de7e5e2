"""allauth's pages for one-time and recovery codes: with the limits of `console.accounts.lockout`, and a code works once."""

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.core import context
from allauth.headless.constants import Client
from allauth.headless.mfa import inputs, views
from allauth.mfa.models import Authenticator
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path

from console.accounts import lockout
from console.accounts.sign_in import BROWSER


class _Limited:
    """A form with a code: counts the attempt before allauth checks it."""

    user: Any

    def clean_code(self) -> str:
        attempt = lockout.count(context.request, lockout.Kind.CODE, self.user.get_username(), self.user)
        if attempt is None:
            raise get_adapter().validation_error("too_many_login_attempts")
        code: str = super().clean_code()  # type: ignore[misc]
        attempt.succeeded()
        return code


class AuthenticateInput(_Limited, inputs.AuthenticateInput):  # type: ignore[misc]
    """The code after the password."""


class ReauthenticateInput(_Limited, inputs.ReauthenticateInput):  # type: ignore[misc]
    """The code that an open session must enter again."""


class AuthenticateView(views.AuthenticateView):  # type: ignore[misc]
    """Takes the code after the password."""

    input_class = AuthenticateInput


class ReauthenticateView(views.ReauthenticateView):  # type: ignore[misc]
    """Verifies the code that an open session must enter again."""

    input_class = ReauthenticateInput


class ManageTOTPView(views.ManageTOTPView):  # type: ignore[misc]
    """Sets up and removes an authenticator app."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Activates the app. Its first code is used then: it does not sign in as well."""
        with transaction.atomic():
            response: HttpResponse = super().post(request, *args, **kwargs)
            app = Authenticator.objects.get(user=request.user, type=Authenticator.Type.TOTP)
            # Marks the code as used; one that has expired meanwhile needs no mark.
            app.wrap().validate_code(self.input.cleaned_data["code"])
        return response


urlpatterns = [
    path(f"{BROWSER[1:]}auth/2fa/authenticate", AuthenticateView.as_api_view(client=Client.BROWSER)),
    path(f"{BROWSER[1:]}auth/2fa/reauthenticate", ReauthenticateView.as_api_view(client=Client.BROWSER)),
    path(f"{BROWSER[1:]}account/authenticators/totp", ManageTOTPView.as_api_view(client=Client.BROWSER)),
]
"""In place of allauth's own, which come after them."""
