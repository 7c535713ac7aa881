"""Commands of the operator: replay, dead letters, snapshots, cursors, pausing a sink, checks of the state.

client       sends a command to a running bridge
handlers     a command's answer, whatever happens; the answers to the commands
operations   carries the commands out on that state; opens the state of a bridge that does not run; carries the
             commands out inside a running bridge
protocol     messages on the admin socket; the socket's path, its mode, and who may connect
server       serves the admin socket
"""
