"""Puts a changed configuration file into effect while the bridge runs.

configuration_file  notices that the file changed, also behind the symbolic links of a ConfigMap
departures          counts the objects that a change would export as deleted
live_change         foresees a change, and carries it out in the running rooms
reloader            reads the file when it changed or somebody asks, and accepts or refuses the change
"""
