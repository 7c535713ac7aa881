"""What replicas of a bridge send one another: a copy of the leader's state, for a replica with an empty disk; and the
dead letters of a former leader, for the one that leads.

fetching  a replica gets the copy before it begins
letters   the leader gets the dead letters of former leaders
requests  what a replica asks another, and how the answer is read
serving   sends both
sources   the addresses of replicas, as the Lease has them (pure)
"""
