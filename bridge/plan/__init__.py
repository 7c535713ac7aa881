"""The work of a bridge, in the types of its rooms.

difference           compares two configurations: the part that a running bridge can put into effect, and the rest
encryption_keys      loads the keys of the content in the state directory
key_file             reads a file with a key
plan                 the plan
plan_from_settings   makes the plan from the configuration
preflight            finds mistakes that no retry can mend, before anything is watched
private_file         writes a small file of the state directory (mode 0600)
redaction_key_file   loads the key of redaction, or makes it
shard                the shard of this bridge
"""
