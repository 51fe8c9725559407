"""The kill switches: stop everything of a tenant, or one agent.

Others call `services.call_gate`, through which the first bytes of every call to a target pass.
"""
