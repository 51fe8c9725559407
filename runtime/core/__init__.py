"""What every domain stands on; it knows no row of another domain.

The clock, transactions that are retried on a conflict, stored responses to repeated calls, paging, ids, rows
compared with the ledger (`mismatches`), and `ports`: the functions of higher domains that lower ones call.
`api` and `views` hold what every call and every page shares.
"""
