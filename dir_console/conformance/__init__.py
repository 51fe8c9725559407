"""Conformance: what the papers behind the product ask for, tried on this installation, with what came out.

`run.run` does it, `catalogue.CHECKS` lists it, `frameworks` maps it to two public frameworks. It reads; what
it starts is one child process (`trial`), which touches no database.
"""
