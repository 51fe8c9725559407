"""DecisionRecords (ContextOS): what a flow came to, at each checkpoint and at its end."""
