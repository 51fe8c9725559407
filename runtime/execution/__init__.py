"""Execution: the only road to a side effect.

`services.attempting` claims an intent, calls its target once, and records what came of it. Every ending is
written by `services.intent_transitions`. `adapters` alone reach the network, and only execution calls them.
"""
