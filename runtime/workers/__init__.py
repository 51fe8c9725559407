"""What drives the work: threads of the embedded mode, Celery tasks of production, and their sweeps.

Both carry ids only. The rows decide what is due, and a lost message costs seconds.
"""
