"""The log of records, and the ledger, which names the record with the last state of every object.

body_codec     compression dictionaries in the database; compressed bodies with a dictionary for each kind
cleaner        deletes records that nobody needs, in bulk
informer_sql   the informers, their progress and their objects
ledger_sql     the ledger, kinds and resources
reading        records and bodies of the log
record_codec   a row into its record; records in dead letters
sparse_index   bytes and ages of records, without a read of the log (pure); the records kept beyond need, and the
               start of the log that follows (pure)
statements     the field managers of a step, on new records (pure); the decision of the sinks' selections on new
               records; the writer's transactions, and the informers as the outbox follows them
turns          turns of the event loop, for work whose length others choose
"""
