"""Commands of the operator: replay, dead letters, snapshots, cursors, pausing a sink, checks of the state.

client       sends a command to a running bridge
handlers     decodes the request of a command, and encodes its answer or refusal
operations   carries the commands out: inside a running bridge, or on the state of a stopped one
protocol     the messages on the admin socket, and the socket's file
server       serves the admin socket

A command goes from ``client`` through the socket to ``handlers``, which call ``LiveOperations``. Where no bridge runs,
the command line holds the lock of the state directory and calls ``OfflineOperations`` itself. The page uses the same
handlers.
"""
