"""The database file and the state directory.

database          connections, their pragmas, and queries that always have a row
directory_lock    files with mode 0600; one bridge for each directory, and nobody else in its files
mark              the mark that an ended bridge leaves for the next start
schema            steps from earlier formats to this one; the tables in SQL; format number, application id, the check
                  of the tables and their making
shard_file        the shard whose objects the state has
state_directory   its files: identity, sizes, mark, and the database moved aside
wal               finds a write-ahead log that lost its end
"""
