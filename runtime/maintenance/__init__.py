"""What repairs and watches: the sweeper, the silence watchdog, a new epoch after a restore, erasure.

Every item is locked and checked again in a transaction of its own, so one bad row stops no other.
"""
