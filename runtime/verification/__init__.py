"""Rows compared with the ledger entries about them, for `verify_ledger`.

Each check registers in `DIR_ROW_CHECKS`; `audit.verification` runs them and knows none of the rows.
"""
