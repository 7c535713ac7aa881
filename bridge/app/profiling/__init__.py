"""CPU time of a running bridge, by stage. A bridge that is not profiled never imports this room.

clocks    a clock for each stage and thread
figures   the resulting table
hooks     installs the clocks at the functions of each stage
threads   wake-ups and CPU time of each thread
"""
