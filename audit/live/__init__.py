"""Live pages: hints that a stream has grown, the sockets that pass them on, and the relay between processes.

Others call `hints.hint_after_commit`.
"""
