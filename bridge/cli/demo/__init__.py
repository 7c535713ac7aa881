"""`kubedelta demo`: a simulated cluster on the terminal.

command   runs a bridge on the playground
view      draws each delta and the state of the sinks
"""
