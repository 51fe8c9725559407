"""What an agent works with: its compiled context, its reasoning steps, its usage, its own events.

`services.contexts` freezes a context under the name that a proposal cites; `services.usage` stops a flow
whose compute budget is exceeded.
"""
