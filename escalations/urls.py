"""Addresses of the queue and of the decision page."""

from django.urls import path

from escalations.views import (
    bench,
    bulk,
    claims,
    decide,
    detail,
    doubts,
    notes,
    queue,
    reading,
    saved_views,
    undo,
)

urlpatterns = [
    path("", queue.queue, name="escalations"),
    path("count/", queue.count, name="escalation-count"),
    path("pause/", reading.end_pause, name="end-pause"),
    path("bulk/", bulk.confirm, name="escalation-bulk"),
    path("bulk/decide/", bulk.decide, name="escalation-bulk-decide"),
    path("views/", saved_views.save, name="save-view"),
    path("views/<int:view_pk>/delete/", saved_views.delete, name="delete-view"),
    path("in-doubt/", doubts.index, name="calls-in-doubt"),
    path("in-doubt/<uuid:intent_id>/<int:number>/", doubts.state, name="call-in-doubt"),
    path("in-doubt/<uuid:intent_id>/<int:number>/ask/", bench.ask, name="ask-target"),
    path("<uuid:escalation_id>/", detail.show, name="escalation"),
    path("<uuid:escalation_id>/strip/", detail.strip, name="escalation-strip"),
    path("<uuid:escalation_id>/state/", detail.state, name="escalation-state"),
    path("<uuid:escalation_id>/questions/", detail.questions, name="escalation-questions"),
    path("<uuid:escalation_id>/decision/", decide.decide, name="escalation-decision"),
    path("<uuid:escalation_id>/withdraw-decision/", decide.withdraw, name="escalation-withdraw-decision"),
    path("<uuid:escalation_id>/dry-run/", decide.dry_run, name="escalation-dry-run"),
    path("<uuid:escalation_id>/take-back/", undo.take_back, name="escalation-take-back"),
    path("<uuid:escalation_id>/undo/", undo.window, name="escalation-undo"),
    path("<uuid:escalation_id>/after-decision/", decide.choose_after, name="escalation-after"),
    path("<uuid:escalation_id>/claim/", decide.claim, name="escalation-claim"),
    path("<uuid:escalation_id>/release/", decide.release, name="escalation-release"),
    path("<uuid:escalation_id>/claim/renew/", claims.renew, name="escalation-renew"),
    path("<uuid:escalation_id>/claim/take-over/", claims.take_over, name="escalation-take-over"),
    path("<uuid:escalation_id>/claim/hand-over/", claims.hand_over, name="escalation-hand-over"),
    path("<uuid:escalation_id>/claim/move/", claims.move, name="escalation-claim-move"),
    path("<uuid:escalation_id>/notes/", notes.of_escalation, name="escalation-notes"),
]
