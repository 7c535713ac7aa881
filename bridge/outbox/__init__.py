"""Records in the order in which the API server told them, kept until every sink has settled them.

``memory`` holds them in memory, within bounds: what a crash takes is lost, and a sink that falls behind by more than
the bounds gets a Gap. A durable outbox takes its place behind the same methods.
"""
