"""Commands of the operator: replay, dead letters, snapshots, cursors, pausing a sink, checks of the state.

answering        a command's answer, whatever happens
client           sends a command to a running bridge
handlers         the answers to the commands
live_operations  carries the commands out inside a running bridge
offline          opens the state of a bridge that does not run
operations       carries the commands out on that state
protocol         messages on the admin socket
server           serves the admin socket
socket_file      the socket's path, its mode, and who may connect
"""
