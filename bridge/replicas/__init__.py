"""What replicas of a bridge send one another: a copy of the leader's state, for a replica with an empty disk.

fetching  a replica gets the copy before it begins
serving   the leader sends it
sources   the address of the leader, as the Lease has it (pure)
"""
