"""What can run out: capacities with their reservations, and the compute and escalation budgets.

Others call `services.reservations` inside a flow's transaction, and read `queries.resource_facts` and
`queries.compute_left`.
"""
