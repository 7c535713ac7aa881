"""Commands on the state: cursors, replay, dead-letters, state, sinks.

access     reaches the running bridge through its socket, or its files
commands   a function for each command
tables     their output for people
"""
