"""The console's addresses. The API is named by its text: the console imports nothing of it."""

from django.urls import include, path, re_path

from console.accounts import codes
from console.http import documentation
from console.http.views import healthz, page
from console.reports.metrics import metrics

NOT_PAGES = r"api|docs|accounts|_allauth|static|ws|metrics|healthz|favicon\.ico|robots\.txt"
"""First parts of addresses that are never a page of the console: what is unknown below them is answered with 404."""

urlpatterns = [
    path("healthz", healthz),
    path("metrics", metrics),
    path("api/v1/", include("api.urls")),
    path("docs/", documentation.page),
    path("docs/api", documentation.api),
    path("docs/images/<str:name>", documentation.image),
    path("docs/<path:name>", documentation.page),
    path("accounts/", include("allauth.urls")),
    *codes.urlpatterns,
    path("_allauth/", include("allauth.headless.urls")),
    re_path(rf"^(?!(?:{NOT_PAGES})(?:/|$))", page),
]
handler400 = "api.problems.bad_request"
handler404 = "api.problems.not_found"
handler500 = "api.problems.failed"
