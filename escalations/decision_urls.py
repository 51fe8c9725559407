"""Addresses of the decisions that people have made."""

from django.urls import path

from escalations.views import decision_list, decision_record

urlpatterns = [
    path("", decision_list.index, name="decisions"),
    path("<uuid:escalation_id>/", decision_record.detail, name="decision-record"),
]
