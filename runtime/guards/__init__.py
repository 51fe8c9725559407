"""Soft guards: they review what was proposed, and flag; they never permit anything.

`services.guard_config` configures and queues them, `services.guard_runs` runs one, and `services.reviews` is
what a person finds about a flag.
"""
