"""Reads the whole state, or the state of another process.

inspection   reads the state beside a running bridge
integrity    finds damage wherever reading raised; `kubedelta state check`
"""
