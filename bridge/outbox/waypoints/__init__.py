"""Where in the log each informer reached which version: for replicas with an election alone.

lists  what an election does before an informer lists
index  the waypoints in memory, and the questions about them (pure)
sql    the waypoints in the database
"""
