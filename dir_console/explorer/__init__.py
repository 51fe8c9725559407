"""The search of auditors: flows, records and entries by every key, on one page.

`asked` reads the address, `narrowing` turns ids of other things into flows, `sections`
searches, `page` shows.
"""
