"""The world as the runtime knows it: versioned facts, the memory of agents, and artifacts.

Feeds and agents write through `services`; others read `queries.visible_facts` and `queries.memory_layers`.
"""
