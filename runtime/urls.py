"""Addresses of the runtime's pages."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from runtime.views import (
    agent_forms,
    agents,
    budgets,
    contexts,
    flows,
    kind_drafts,
    kinds,
    ledger,
    manifest_pages,
    memory,
    people,
    reservations,
    reviews,
    stops,
    targets,
)


class NameConverter(StringConverter):
    """A name of the registry. A row whose name was rewritten must not close the page that lists it."""

    def to_url(self, value: str) -> str:
        """The name as one part of an address; a name that cannot be one leads nowhere."""
        return value.replace("/", "%2F") or "-"


register_converter(NameConverter, "name")

urlpatterns = [
    path("stop/", stops.stop_all, name="stop-all"),
    path("stop/state/", stops.state, name="stop-state"),
    path("resume/", stops.resume_all, name="resume-all"),
    path("agents/", agents.index, name="agents"),
    path("register-agent/", agent_forms.register, name="register-agent"),
    path("agents/<name:agent_id>/", agents.detail, name="agent"),
    path("agents/<name:agent_id>/edit/", agent_forms.edit, name="edit-agent"),
    path(
        "agents/<name:agent_id>/owner/<int:change>/agree/", agent_forms.agree_to_owner, name="agree-to-owner"
    ),
    path("agents/<name:agent_id>/owner/<int:change>/drop/", agent_forms.drop_owner, name="drop-owner"),
    path("agents/<name:agent_id>/status/", agent_forms.move, name="move-agent"),
    path("agents/<name:agent_id>/keys/", agent_forms.issue_key, name="issue-key"),
    path("agents/<name:agent_id>/keys/<name:key_id>/revoke/", agent_forms.revoke_key, name="revoke-key"),
    path("agents/<name:agent_id>/manifests/new/", manifest_pages.new, name="new-manifest"),
    path("agents/<name:agent_id>/manifests/<name:version>/", manifest_pages.detail, name="manifest"),
    path(
        "agents/<name:agent_id>/manifests/<name:version>/activate/",
        manifest_pages.activate,
        name="activate-manifest",
    ),
    path(
        "agents/<name:agent_id>/manifests/<name:version>/discard/",
        manifest_pages.discard,
        name="discard-manifest",
    ),
    path("agents/<name:agent_id>/stop/", stops.stop_agent, name="stop-agent"),
    path("agents/<name:agent_id>/resume/", stops.resume_agent, name="resume-agent"),
    path("budgets/", budgets.index, name="budgets"),
    path("budgets/agents/<name:agent_id>/refill/", budgets.refill, name="refill-budget"),
    path("budgets/reservations/", reservations.index, name="reservations"),
    path("budgets/capacity/", budgets.set_capacity, name="set-capacity"),
    path("kinds/", kinds.index, name="kinds"),
    path("kinds/new/", kind_drafts.new_kind, name="new-kind"),
    path("kinds/<name:kind>/", kinds.detail, name="kind"),
    path("kinds/<name:kind>/new/", kind_drafts.new_version, name="new-kind-version"),
    path("kinds/<name:kind>/<name:version>/activate/", kind_drafts.activate, name="activate-kind"),
    path("kinds/<name:kind>/<name:version>/discard/", kind_drafts.discard, name="discard-kind"),
    path("targets/", targets.index, name="targets"),
    path("targets/<name:name>/test/", targets.check, name="test-target"),
    path("targets/<name:name>/close/", targets.close, name="close-circuit"),
    path("flows/", flows.search, name="flows"),
    path("flows/<uuid:dfid>/", flows.detail, name="flow"),
    path("flows/<uuid:dfid>/contexts/<name:context_ref>/", contexts.detail, name="flow-context"),
    path("flows/<uuid:dfid>/entries/", flows.entries, name="flow-entries"),
    path("flows/<uuid:dfid>/entries/<int:seq>/", flows.entry, name="flow-entry"),
    path("memory/", memory.index, name="memory"),
    path("memory/<int:item>/release/", memory.release, name="release-memory"),
    path("memory/<int:item>/discard/", memory.discard, name="discard-memory"),
    path("reviews/", reviews.index, name="reviews"),
    path("reviews/count/", reviews.count, name="review-count"),
    path("reviews/<uuid:review_id>/", reviews.detail, name="review"),
    path("reviews/<uuid:review_id>/close/", reviews.close, name="close-review"),
    path("reviews/guards/<name:guard_id>/on/", reviews.switch_on, name="switch-guard-on"),
    path("reviews/guards/<name:guard_id>/off/", reviews.switch_off, name="switch-guard-off"),
    path("people/", people.index, name="people"),
    path("people/groups/", people.make_group, name="make-group"),
    path("people/groups/<int:group>/members/", people.join, name="join-group"),
    path("people/groups/<int:group>/members/<int:user>/leave/", people.leave, name="leave-group"),
    path("ledger/", ledger.index, name="ledger"),
]
