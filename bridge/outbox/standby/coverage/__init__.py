"""What frontiers say about the log of a replica, and about what it lacks. Pure.

bounds     how far former leaders can have come beyond what they published
confirmed  how far frontiers in the Lease cover the own log
covered    what a frontier covers in the own log
exactness  whether the replica lacks something that another one delivered
settled    records of the own log that another replica has delivered
"""
