"""Distribution of records to the sinks.

log                the log that listeners read, and their errors
shared_processor   distributes to every listener without waiting for any; a listener's bounded window over the log
tap                a bounded look at what is distributed
"""
