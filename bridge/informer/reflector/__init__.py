"""Lists and watches one resource.

assurance       whether the answers are of the known history
comparison      the part of the known objects that is of the present history
list_limiter    bounds the number of concurrent lists
list_watch      the list-watch state machine (pure)
listing         its states before the store has synced (pure)
pacing          the time of the next request (pure)
page_size       the number of objects in the next page (pure)
reflector       makes the requests, keeps the deadlines, and fills the DeltaFIFO
request_end     the meaning of a watch's end, and reasons in words (pure)
requests        the first state, and the request of a state (pure)
states          states, steps and results of the state machine
"""
