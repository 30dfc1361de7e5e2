"""Addresses."""

from books import views
from django.urls import path

urlpatterns = [path("orders/", views.place_order)]
