"""``kubedelta tail``.

command   reads records and prints them, until the reader leaves
filters   the records that the options choose
lines     a record as a line for people
live      records that the running bridge commits
printer   prints records
"""
