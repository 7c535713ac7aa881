"""Reads the whole state, or the state of another process.

integrity    finds damage: for `kubedelta state check`, and wherever reading raised
inspection   reads the state beside a running bridge
"""
