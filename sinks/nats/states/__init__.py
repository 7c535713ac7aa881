"""The state of objects in a key-value bucket, beside the history (option ``state``).

bucket    finds, creates and verifies the bucket
encode    the newest record of an object as an entry: its key, its headers
leading   takes the bucket over for the leader of a term
sink      NatsSink with a bucket
"""
