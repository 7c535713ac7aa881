"""Where in the log each informer reached which version: for replicas with an election alone.

index  the waypoints in memory, and the questions about them (pure)
sql    the waypoints in the database
"""
