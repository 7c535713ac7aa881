"""CPU time of a running bridge, by stage. A bridge that is not profiled never imports this room.

clocks    a clock for each stage and thread
figures   the resulting tables: by stage, and by thread
hooks     installs the clocks at the functions of each stage
"""
