"""Addresses of the decisions that people have made."""

from django.urls import path

from escalations.views import decision_list, recorded_decision

urlpatterns = [
    path("", decision_list.index, name="decisions"),
    path("<uuid:escalation_id>/", recorded_decision.detail, name="recorded-decision"),
]
