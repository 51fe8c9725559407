"""Topic intake: agents propose over Redis Streams, by the same calls as over HTTP.

The broker is a road and nothing more: who proposes is proved by the session token in each message, what was
decided is in the database, and a message that comes twice acts once.
"""
