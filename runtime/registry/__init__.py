"""Who may propose what: agents, people and groups, keys and sessions, manifests, policy kinds, targets.

Versions of manifests and kinds are drafted by one admin and activated by another (`services.dual_control`).
Others call `services.agents` (locks, status) and read `queries.granted_kinds`, `queries.recorded_versions`
and `queries.target_endpoints`.
"""
