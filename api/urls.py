"""/api/v1/: one list of addresses."""

from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

from api.views import subjects

subject_urls = [
    path("subjects/", subjects.SubjectsView.as_view(), name="subjects"),
    path("subjects/<str:subject>/", subjects.SubjectView.as_view(), name="subject"),
    path("subjects/<str:subject>/archive/", subjects.ArchiveView.as_view(), name="subject-archive"),
    path("subjects/<str:subject>/restore/", subjects.RestoreView.as_view(), name="subject-restore"),
    path("subjects/<str:subject>/placement/", subjects.PlacementView.as_view(), name="subject-placement"),
]

urlpatterns = [
    path("openapi.yaml", SpectacularAPIView.as_view(), name="openapi"),
    path("", include(subject_urls)),
    path("", include("api.alert_urls")),
]
