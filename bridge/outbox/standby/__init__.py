"""Where an election decides which replica delivers: what the leader publishes, and how a standby follows it.

coverage      what frontiers say about the own log, and about what it lacks (pure)
destinations  sinks whose destination stores their progress
epochs        the epochs in which a replica goes on
kept          what another replica keeps when this one begins to lead
letters       dead letters go to the replica that leads
lists         lists of a replica whose watches lag behind what another leader has delivered
others        what other leaders have delivered
opening       a replica joins an election, or goes on without one
planning      what a takeover is to write (pure)
progress      the frontier that a replica publishes (pure)
selected      by which entries of ``select`` the sinks get their records (pure)
standby       a replica in an election
takeover      the transaction with which a replica begins to lead
"""
