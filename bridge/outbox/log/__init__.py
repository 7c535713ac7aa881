"""The log of records, and the ledger, which names the record with the last state of every object.

statements     the writer's transactions for new records, with their managers and selections; the running informers
record_codec   a row into its record; records in dead letters
body_codec     compressed bodies, with a dictionary for each kind
ledger_sql     the ledger, kinds and resources
informer_sql   the informers, their progress and their objects
reading        records and bodies of the log
sparse_index   bytes and ages of records without a read of the log, and how far the log can be trimmed
cleaner        deletes records that nobody needs, in bulk
turns          turns of the event loop, for work whose length others choose

``statements.append`` writes a batch: a row of the log and a row of the ledger for each record, and the informer's
position. ``reading`` gives the records back, decoded by ``record_codec``. Once every sink has settled a record, the log
is trimmed behind it; the ``cleaner`` then removes it, unless it holds the last state of an object.
"""
