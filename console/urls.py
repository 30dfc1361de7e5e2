"""The console's addresses. The pages come with the console itself; until then it says how the system is."""

from django.urls import path

from console.views import healthz, start_page

urlpatterns = [path("", start_page), path("healthz", healthz)]
