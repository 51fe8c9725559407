"""Addresses of the runtime's pages."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from runtime.advice.views import ruleset_editor, ruleset_pages
from runtime.contexts.views import context_pages
from runtime.conversations.views import capability_pages, conversation_pages
from runtime.core.views.stream_names import StreamConverter
from runtime.execution.views import target_pages, tool_pages
from runtime.flows.views import (
    entry_page,
    evidence_file,
    flow_pages,
    ledger_page,
    reasoning_page,
    record_pages,
)
from runtime.guards.views import memory_marks, review_groups, review_pages
from runtime.incidents.views import incident_acts, incident_pages, post_mortem_pages, rule_pages
from runtime.maintenance.views import (
    decision_metrics_page,
    erase_page,
    payload_keys_page,
    replay_runs_page,
    retention_page,
    rule_coverage_page,
)
from runtime.outward.views import receiver_pages
from runtime.proposals.views import (
    calibration_map_pages,
    calibration_page,
    compare_page,
    record_report_page,
    replay_page,
)
from runtime.registry.views import (
    account_actions,
    agent_admin,
    agent_pages,
    autonomy_pages,
    kind_editor,
    kind_pages,
    label_pages,
    manifest_pages,
    people_pages,
)
from runtime.resources.views import budget_pages, reservation_pages
from runtime.state.views import memory_item_page, memory_pages, ontology_pages, world_pages
from runtime.stops.views import stop_pages
from runtime.workflows.views import workflow_pages


class NameConverter(StringConverter):
    """A name of the registry. A row whose name was rewritten must not close the page that lists it."""

    def to_url(self, value: str) -> str:
        """The name as one part of an address; a name that cannot be one leads nowhere."""
        return value.replace("/", "%2F") or "-"


register_converter(NameConverter, "name")
register_converter(StreamConverter, "stream")

urlpatterns = [
    path("stop/", stop_pages.stop_all, name="stop-all"),
    path("stop/state/", stop_pages.state, name="stop-state"),
    path("resume/", stop_pages.resume_all, name="resume-all"),
    path("agents/", agent_pages.index, name="agents"),
    path("register-agent/", agent_admin.register, name="register-agent"),
    path("agents/<name:agent_id>/", agent_pages.detail, name="agent"),
    path("agents/<name:agent_id>/calibration/", calibration_page.show, name="agent-calibration"),
    path("agents/<name:agent_id>/calibration/draft/", calibration_map_pages.draft, name="draft-calibration"),
    path(
        "agents/<name:agent_id>/calibration/<int:number>/activate/",
        calibration_map_pages.activate,
        name="activate-calibration",
    ),
    path(
        "agents/<name:agent_id>/calibration/<int:number>/discard/",
        calibration_map_pages.discard,
        name="discard-calibration",
    ),
    path("agents/<name:agent_id>/edit/", agent_admin.edit, name="edit-agent"),
    path(
        "agents/<name:agent_id>/owner/<int:change>/agree/", agent_admin.agree_to_owner, name="agree-to-owner"
    ),
    path("agents/<name:agent_id>/owner/<int:change>/drop/", agent_admin.drop_owner, name="drop-owner"),
    path("agents/<name:agent_id>/status/", agent_admin.move, name="move-agent"),
    path("agents/<name:agent_id>/labels/end/", label_pages.end, name="end-label"),
    path("agents/<name:agent_id>/autonomy/", autonomy_pages.raise_level, name="raise-autonomy"),
    path("agents/<name:agent_id>/keys/", agent_admin.issue_key, name="issue-key"),
    path("agents/<name:agent_id>/tokens/", agent_admin.bind_token, name="bind-token"),
    path("agents/<name:agent_id>/keys/<name:key_id>/revoke/", agent_admin.revoke_key, name="revoke-key"),
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
    path("agents/<name:agent_id>/stop/", stop_pages.stop_agent, name="stop-agent"),
    path("agents/<name:agent_id>/resume/", stop_pages.resume_agent, name="resume-agent"),
    path("budgets/", budget_pages.index, name="budgets"),
    path("budgets/agents/<name:agent_id>/refill/", budget_pages.refill, name="refill-budget"),
    path("budgets/reservations/", reservation_pages.index, name="reservations"),
    path("budgets/capacity/", budget_pages.set_capacity, name="set-capacity"),
    path("kinds/", kind_pages.index, name="kinds"),
    path("kinds/new/", kind_editor.new_kind, name="new-kind"),
    path("kinds/<name:kind>/", kind_pages.detail, name="kind"),
    path("kinds/<name:kind>/new/", kind_editor.new_version, name="new-kind-version"),
    path("kinds/<name:kind>/<name:version>/activate/", kind_editor.activate, name="activate-kind"),
    path("kinds/<name:kind>/<name:version>/discard/", kind_editor.discard, name="discard-kind"),
    path("rulesets/", ruleset_pages.index, name="rulesets"),
    path("rulesets/<name:ruleset>/", ruleset_pages.detail, name="ruleset"),
    path("rulesets/<name:ruleset>/new/", ruleset_editor.new_version, name="new-ruleset-version"),
    path("rulesets/<name:ruleset>/<name:version>/activate/", ruleset_pages.activate, name="activate-ruleset"),
    path("rulesets/<name:ruleset>/<name:version>/discard/", ruleset_pages.discard, name="discard-ruleset"),
    path("workflows/", workflow_pages.index, name="workflows"),
    path("workflows/<name:workflow>/", workflow_pages.detail, name="workflow"),
    path("world/", world_pages.index, name="world"),
    path("world/facts/<name:fact>/", world_pages.fact, name="fact"),
    path("world/ontology/", ontology_pages.index, name="ontology"),
    path("world/ontology/<name:version>/activate/", ontology_pages.activate, name="activate-ontology"),
    path("world/ontology/<name:version>/discard/", ontology_pages.discard, name="discard-ontology"),
    path("targets/", target_pages.index, name="targets"),
    path("targets/<name:name>/test/", target_pages.check, name="test-target"),
    path("targets/<name:name>/close/", target_pages.close, name="close-circuit"),
    path("tools/", tool_pages.index, name="tools"),
    path("tools/<name:server>/", tool_pages.detail, name="tool"),
    path("tools/<name:server>/pin/", tool_pages.pin, name="pin-tool"),
    path("tools/<name:server>/look/", tool_pages.look, name="look-at-tools"),
    path("tools/<name:server>/switch/", tool_pages.switch, name="switch-tool-server"),
    path("flows/", flow_pages.search, name="flows"),
    path("flows/compare/", compare_page.index, name="compare-flows"),
    path("flows/<uuid:dfid>/", flow_pages.detail, name="flow"),
    path("flows/<uuid:dfid>/contexts/<name:context_ref>/", context_pages.detail, name="flow-context"),
    path("flows/<uuid:dfid>/evidence.zip", evidence_file.download, name="evidence-pack"),
    path("flows/<uuid:dfid>/evidence/start/", evidence_file.start, name="start-pack"),
    path("flows/<uuid:dfid>/evidence/progress/", evidence_file.progress, name="pack-progress"),
    path("flows/<uuid:dfid>/reasoning/", reasoning_page.detail, name="flow-reasoning"),
    path("flows/<uuid:dfid>/replay", replay_page.fragment, name="flow-replay"),
    path("flows/<uuid:dfid>/erase/", erase_page.erase, name="erase-flow"),
    path("flows/<uuid:dfid>/entries/", flow_pages.entries, name="flow-entries"),
    path("flows/<uuid:dfid>/entries/<int:seq>/", flow_pages.entry, name="flow-entry"),
    path("conversations/", conversation_pages.index, name="conversations"),
    path("conversations/<uuid:conversation_id>/", conversation_pages.detail, name="conversation"),
    path("capabilities/", capability_pages.index, name="capabilities"),
    path("capabilities/<int:capability>/override/", capability_pages.override, name="override-capability"),
    path("memory/", memory_pages.index, name="memory"),
    path("memory/<int:item>/", memory_item_page.detail, name="memory-item"),
    path("memory/<int:item>/mark/", memory_marks.mark, name="mark-memory-flows"),
    path("memory/<int:item>/release/", memory_pages.release, name="release-memory"),
    path("memory/<int:item>/discard/", memory_pages.discard, name="discard-memory"),
    path("reviews/", review_pages.index, name="reviews"),
    path("reviews/count/", review_pages.count, name="review-count"),
    path("reviews/alike/close/", review_groups.close, name="close-reviews"),
    path("reviews/alike/<uuid:review_id>/", review_groups.show, name="reviews-alike"),
    path("reviews/<uuid:review_id>/", review_pages.detail, name="review"),
    path("reviews/<uuid:review_id>/close/", review_pages.close, name="close-review"),
    path("reviews/guards/<name:guard_id>/on/", review_pages.switch_on, name="switch-guard-on"),
    path("reviews/guards/<name:guard_id>/off/", review_pages.switch_off, name="switch-guard-off"),
    path("outward/", receiver_pages.index, name="receivers"),
    path("outward/<uuid:receiver_id>/", receiver_pages.edit, name="receiver"),
    path("outward/<uuid:receiver_id>/test/", receiver_pages.test, name="test-receiver"),
    path("outward/<uuid:receiver_id>/pause/", receiver_pages.pause, name="pause-receiver"),
    path("outward/<uuid:receiver_id>/resume/", receiver_pages.resume, name="resume-receiver"),
    path("outward/<uuid:receiver_id>/move/", receiver_pages.move, name="move-receiver"),
    path("incidents/", incident_pages.index, name="incidents"),
    path("incidents/new/", incident_pages.new, name="new-incident"),
    path("incidents/rules/", rule_pages.index, name="incident-rules"),
    path("incidents/rules/draft/", rule_pages.draft, name="draft-incident-rule"),
    path("incidents/rules/usual/", rule_pages.add_usual, name="add-usual-incident-rules"),
    path(
        "incidents/rules/<name:name>/<int:version>/activate/",
        rule_pages.activate,
        name="activate-incident-rule",
    ),
    path("incidents/rules/<name:name>/<int:version>/off/", rule_pages.switch_off, name="end-incident-rule"),
    path("incidents/<uuid:incident_id>/", incident_pages.detail, name="incident"),
    path("incidents/<uuid:incident_id>/move/", incident_acts.move, name="move-incident"),
    path("incidents/<uuid:incident_id>/edit/", incident_acts.edit, name="edit-incident"),
    path("incidents/<uuid:incident_id>/links/", incident_acts.link, name="link-incident"),
    path(
        "incidents/<uuid:incident_id>/links/<int:link>/remove/", incident_acts.unlink, name="unlink-incident"
    ),
    path("incidents/<uuid:incident_id>/notes/", incident_acts.note, name="note-incident"),
    path("incidents/<uuid:incident_id>/actions/", incident_acts.add_action, name="add-incident-action"),
    path(
        "incidents/<uuid:incident_id>/actions/<uuid:action_id>/done/",
        incident_acts.finish_action,
        name="finish-incident-action",
    ),
    path("incidents/<uuid:incident_id>/post-mortem/", post_mortem_pages.show, name="post-mortem"),
    path("incidents/<uuid:incident_id>/post-mortem/edit/", post_mortem_pages.edit, name="edit-post-mortem"),
    path("incidents/<uuid:incident_id>/post-mortem.md", post_mortem_pages.download, name="post-mortem-file"),
    path("retention/", retention_page.index, name="retention"),
    path("retention/holds/", retention_page.place, name="place-hold"),
    path("retention/holds/<uuid:hold_id>/release/", retention_page.release, name="release-hold"),
    path("payload-keys/", payload_keys_page.index, name="payload-keys"),
    path("payload-keys/rotate/", payload_keys_page.rotate, name="rotate-payload-key"),
    path("payload-keys/encrypt/", payload_keys_page.encrypt, name="encrypt-payloads"),
    path("payload-keys/<uuid:class_key>/destroy/", payload_keys_page.destroy, name="destroy-payload-key"),
    path("people/", people_pages.index, name="people"),
    path("people/limits/", people_pages.set_limit, name="set-limit"),
    path("people/limits/remove/", people_pages.remove_limit, name="remove-limit"),
    path("people/invite/", account_actions.invite, name="invite-user"),
    path("people/<int:user>/invite/", account_actions.renew, name="renew-invite"),
    path("people/<int:user>/roles/", account_actions.change_roles, name="change-roles"),
    path("people/<int:user>/deactivate/", account_actions.deactivate, name="deactivate-user"),
    path("people/<int:user>/reactivate/", account_actions.reactivate, name="reactivate-user"),
    path("people/<int:user>/sessions/end/", account_actions.end_sessions, name="end-sessions"),
    path("account/sessions/end/", account_actions.end_own_sessions, name="end-own-sessions"),
    path("invite/<str:token>/", account_actions.accept, name="invite"),
    path("people/groups/", people_pages.make_group, name="make-group"),
    path("people/groups/<int:group>/members/", people_pages.join, name="join-group"),
    path("people/groups/<int:group>/members/<int:user>/leave/", people_pages.leave, name="leave-group"),
    path("ledger/", ledger_page.index, name="ledger"),
    path("ledger/verify.py", evidence_file.verifier, name="verifier"),
    path("ledger/entries/<stream:stream>/<int:seq>/", entry_page.detail, name="entry"),
    path("rule-coverage/", rule_coverage_page.show, name="rule-coverage"),
    path("decision-metrics/", decision_metrics_page.show, name="decision-metrics"),
    path("replay/", replay_runs_page.index, name="replay-runs"),
    path("replay/start/", replay_runs_page.start, name="start-replay-run"),
    path("replay/<uuid:run_id>/cancel/", replay_runs_page.cancel, name="cancel-replay-run"),
    path("records/", record_pages.index, name="records"),
    path("records/<name:record_id>/", record_pages.detail, name="record"),
    path("records/<name:record_id>/feedback/", record_pages.give_feedback, name="give-feedback"),
    path("records/reports/<name:name>/", record_report_page.show, name="record-report"),
]
