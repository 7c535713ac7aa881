"""Distribution of records to the sinks.

listener           a bounded window of pending records over the log
shared_processor   distributes to every listener without waiting for any
"""
