"""The database file and the state directory.

database          connections, their pragmas, a write-ahead log that lost its end, queries that always have a row
schema            the tables in SQL, the number of their format, their check, and steps from earlier formats
state_directory   its files: identity, sizes, shard, the mark for the next start, and the database moved aside
directory_lock    one bridge for each directory, and nobody else in its files, which have mode 0600

``StateDirectory`` takes the lock before the database is opened, and holds it until the process ends. Then ``database``
opens the file: ``schema`` recognises it before anything in it changes, a write-ahead log that lost its end is refused,
and the tables are made or migrated. A file that cannot be trusted raises ``Damaged``, and a file of another
program or version raises ``UnknownFormat``: the first is moved aside for a new one, the second is left to the operator.
"""
