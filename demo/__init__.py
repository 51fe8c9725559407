"""The demo world: a paper broker, a price feed and agents that trade on paper, in processes of their own.

They know the console by its public HTTP API alone and import nothing of it.
"""
