"""Proof of the ledger: its chain, its triggers, and the rows that its entries are about.

`row_checks` is what a domain implements to have its rows compared; `verify` runs everything.
"""
