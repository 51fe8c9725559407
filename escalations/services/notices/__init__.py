"""Telling people of escalations and incidents outside the console: routes, the outbox, and what sends it.

`outbox` writes notices in the transaction of what causes them, `sending` sends them later and apart from it:
at least once, with the same id at every try. `routes` is what an admin may do.
"""
