"""The state at a start: opened, repaired, or begun anew.

installing  a copy of another replica's state becomes that of an empty directory
opening    takes the directory, opens the database, and reads the state
rebuild    the new database in place of a damaged one
reporting  the facts about an opened state
"""
