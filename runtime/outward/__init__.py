"""Sending events out: every sealed entry, in the order of the ledger's tree, to receivers outside.

The ledger is the outbox: there is no second queue. A receiver has one position, the next leaf of the tree
that it gets (`services.sending`), so nothing is left out and what is sent is what was sealed.
"""
