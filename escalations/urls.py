"""Addresses of the queue and of the decision page."""

from django.urls import path

from escalations.views import decide, detail, doubts, queue

urlpatterns = [
    path("", queue.queue, name="escalations"),
    path("count/", queue.count, name="escalation-count"),
    path("in-doubt/", doubts.index, name="calls-in-doubt"),
    path("in-doubt/<uuid:intent_id>/<int:number>/", doubts.state, name="call-in-doubt"),
    path("<uuid:escalation_id>/", detail.show, name="escalation"),
    path("<uuid:escalation_id>/state/", detail.state, name="escalation-state"),
    path("<uuid:escalation_id>/questions/", detail.questions, name="escalation-questions"),
    path("<uuid:escalation_id>/decision/", decide.decide, name="escalation-decision"),
    path("<uuid:escalation_id>/dry-run/", decide.dry_run, name="escalation-dry-run"),
    path("<uuid:escalation_id>/claim/", decide.claim, name="escalation-claim"),
    path("<uuid:escalation_id>/release/", decide.release, name="escalation-release"),
]
