"""Faults of a bridge with an election, on real servers: what reaches its destinations, judged by etcd's history.

arrivals     what destinations received, with the time of each arrival
brokers      faults of a broker of three, and of the leader beside it
counting     counts of a fault: steps, losses, repetitions, times without deliveries (pure)
destinations the destinations of a fault: two topics, a stream, a receiver, and the ways to them
ends         faults of the leader's process
goals        the goals of the report (pure)
outages      faults of other replicas' disks, and of servers
report       the counts as Markdown (pure)
results      the counts of all faults, as JSON
selections   a roll-out of another `select`
servers      the servers of all faults, and the three brokers of one
stage        two replicas under load, and the rounds of a fault
"""
