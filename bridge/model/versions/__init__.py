"""Versions of objects.

followed_record   what a stored record says to people, in any format, for `tail`
progress          how far a sink has come, as its destination stores it
stored_version    the version that a stored record is about, for `verify`
version           order of resourceVersions, and records with the numbers of a leader's term
version_table     known versions of many objects in 64-byte rows
"""
