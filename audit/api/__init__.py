"""Calls for strangers who check the ledger. Who may make them is said where they are mounted."""
