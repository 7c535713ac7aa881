"""Commands of the operator: replay, dead letters, snapshots, cursors, pausing a sink, checks of the state.

client        sends a command to a running bridge
commands      the table of all commands, and the coding of their requests and answers
operations    carries the commands out: inside a running bridge, or on the state of a stopped one
server        answers commands, on the admin socket and for the page

A command goes from ``client`` through the socket to ``server``, which calls ``LiveOperations``. Where no bridge runs,
the command line holds the lock of the state directory and calls ``OfflineOperations`` itself. The page has the same
routes.
"""
