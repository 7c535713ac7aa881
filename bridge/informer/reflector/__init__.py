"""Lists and watches one resource.

comparison      the part of the known objects that is of the present history
list_limiter    bounds the number of concurrent lists
list_watch      the list-watch state machine (pure)
pacing          the time of the next request (pure)
page_size       the number of objects in the next page (pure)
reflector       makes the requests, keeps the deadlines, and fills the DeltaFIFO
states          states, steps and results of the state machine
"""
