"""Addresses of the runtime's pages."""

from django.urls import path

from runtime.views import agents, budgets, contexts, flows, kinds, ledger, memory, stops, targets

urlpatterns = [
    path("stop/", stops.stop_all, name="stop-all"),
    path("stop/state/", stops.state, name="stop-state"),
    path("resume/", stops.resume_all, name="resume-all"),
    path("agents/", agents.index, name="agents"),
    path("agents/<str:agent_id>/", agents.detail, name="agent"),
    path("agents/<str:agent_id>/stop/", stops.stop_agent, name="stop-agent"),
    path("agents/<str:agent_id>/resume/", stops.resume_agent, name="resume-agent"),
    path("budgets/", budgets.index, name="budgets"),
    path("budgets/agents/<str:agent_id>/refill/", budgets.refill, name="refill-budget"),
    path("budgets/capacity/", budgets.set_capacity, name="set-capacity"),
    path("kinds/", kinds.index, name="kinds"),
    path("kinds/<str:kind>/", kinds.detail, name="kind"),
    path("targets/", targets.index, name="targets"),
    path("targets/<str:name>/test/", targets.check, name="test-target"),
    path("targets/<str:name>/close/", targets.close, name="close-circuit"),
    path("flows/", flows.search, name="flows"),
    path("flows/<uuid:dfid>/", flows.detail, name="flow"),
    path("flows/<uuid:dfid>/contexts/<str:context_ref>/", contexts.detail, name="flow-context"),
    path("flows/<uuid:dfid>/entries/", flows.entries, name="flow-entries"),
    path("flows/<uuid:dfid>/entries/<int:seq>/", flows.entry, name="flow-entry"),
    path("memory/", memory.index, name="memory"),
    path("memory/<int:item>/release/", memory.release, name="release-memory"),
    path("memory/<int:item>/discard/", memory.discard, name="discard-memory"),
    path("ledger/", ledger.index, name="ledger"),
]
