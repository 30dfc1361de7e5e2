"""The console's addresses. The API is named by its text: the console imports nothing of it."""

from django.urls import include, path

from console.metrics import metrics
from console.views import healthz, start_page

urlpatterns = [
    path("", start_page),
    path("healthz", healthz),
    path("metrics", metrics),
    path("api/v1/", include("api.urls")),
    path("accounts/", include("allauth.urls")),
    path("_allauth/", include("allauth.headless.urls")),
]
handler400 = "api.problems.bad_request"
handler404 = "api.problems.not_found"
handler500 = "api.problems.failed"
