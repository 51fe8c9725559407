"""A burst of proposals by many agent processes, counted at every end: ``python -m tests.load``."""
