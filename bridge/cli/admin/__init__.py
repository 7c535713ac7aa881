"""Commands on the state and the running bridge: cursors, replay, dead-letters, state, sinks, reload.

access     reaches the running bridge through its socket, or its files
commands   a function for each command, but reload
reload     lets the running bridge read its configuration again
tables     their output for people
"""
