"""Addresses of the shift page."""

from django.urls import path

from escalations.views import shift

urlpatterns = [
    path("", shift.page, name="shift"),
    path("hand-over/", shift.hand_over, name="shift-hand-over"),
]
