"""Incidents: what links flows, records, agents and people while something is wrong, and what was learned.

A person opens one, or a rule that counts entries of the ledger (`services.rule_rounds`). None is ever
deleted; `queries.kept` says which flows are kept because of one.
"""
