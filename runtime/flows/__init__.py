"""Flows (DFID) with their families, and the rows of what they propose and execute.

`services.flow_transaction.Journal` collects what one transaction adds to a flow and writes it last;
`services.locks` takes locks in the one order. Proposals, verdicts, intents and attempts are rows here, since
a flow that ends cancels them; what judges and executes them is in `proposals` and `execution`.
"""
