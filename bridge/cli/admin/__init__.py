"""Commands on the state and the running bridge: cursors, replay, snapshot, dead-letters, state, sinks, reload.

access     reaches the running bridge through its socket, or its files
commands   a function for each command, but reload and snapshot
reload     lets the running bridge read its configuration again
snapshot   begins, shows and cancels snapshots on demand
tables     their output for people
whereabouts  finds the running bridge of a file
waiting    waits for what a command has begun, with its progress
"""
