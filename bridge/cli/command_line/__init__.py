"""The command line: its table, and the way from the table to the chosen function.

arguments       types of arguments and their errors
command_table   every command with its arguments and its function
parser          from the table to the chosen function
state_commands  the part of the table about the state and the running bridge
"""
