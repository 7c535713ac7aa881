"""The log of records in the database.

statements     the writer's transactions for new records, with their managers and selections
record_codec   a row into its record; records in dead letters; kinds and resources by number
body_codec     compressed bodies, with a dictionary for each kind
retention      how far the log can be trimmed; bytes and ages of records without a read of it (sparse index)
cleaner        deletes records that nobody needs, in bulk

``statements.append`` writes a batch: a row of the log and a row of the ledger for each record, and the informer's
position. ``store.read_log`` gives the records back, decoded by ``record_codec``. Once every sink has settled a record,
the log is trimmed behind it; the ``cleaner`` then removes it, unless it holds the last state of an object.
"""
