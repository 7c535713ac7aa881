"""Versions of objects.

progress          how far a sink has come, as its destination stores it
stored_record     what a stored record is about, in any format: for `verify` and `tail`
version           order of resourceVersions, and records with the numbers of a leader's term
version_table     known versions of many objects in 64-byte rows
"""
