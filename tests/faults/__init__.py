"""Crashes, hangs and stops in the middle of a burst: the real processes, a real broker, counted outside."""
