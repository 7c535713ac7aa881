"""Where an election decides which replica delivers: what the leader publishes, and how a standby follows it.

covered       what a frontier covers in the own log (pure)
destinations  sinks whose destination stores their progress
epochs        the epochs in which a replica goes on
kept          what another replica keeps when this one begins to lead (pure)
letters       dead letters go to the replica that leads
lists         lists of a replica whose watches lag behind what another leader has delivered
opening       a replica joins an election, or goes on without one
planning      what a takeover is to write (pure)
progress      the frontier that a replica publishes (pure)
selected      by which entries of ``select`` the sinks get their records (pure)
settled       records of the own log that another replica has delivered (pure)
standby       a replica in an election
takeover      the transaction with which a replica begins to lead
"""
