"""Where the CPU of a running bridge goes, stage by stage. Imported by those who ask for it alone: whoever does not pays
nothing, since nothing in the rooms knows of it.

hooks    which functions are which stage; puts clocks around them, and takes them away again
clocks   one thread is in one stage at a time
figures  what the clocks say
"""
