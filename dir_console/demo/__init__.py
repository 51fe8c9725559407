"""The demo world: a paper broker, a price feed and seven agents, each its own process.

They know the console by its public HTTP API alone and import nothing of it.
"""
