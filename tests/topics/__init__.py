"""Topic intake: agents that propose over Redis Streams."""
