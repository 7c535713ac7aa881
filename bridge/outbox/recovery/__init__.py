"""The state at a start: opened, repaired, or begun anew.

opening    takes the directory, opens the database, and reads the state
rebuild    the new database in place of a damaged one
reporting  the facts about an opened state
"""
