"""Which life of the database this is, and which server has it.

A restored backup is found by the mark beside the data folder, or by a checkpoint that a witness holds, and
everything waits until an admin starts a new epoch. Others ask `services.epochs` whether to refuse, and
`services.boots` whether a later server began.
"""
