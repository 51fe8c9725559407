"""Flows that follow a workflow: where each stands, and the checks before its steps.

`queries.positions` reads where a flow stands; `services.positions` moves it under the flow's lock.
"""
