"""Lists and watches one resource.

assurance      the part of the known objects that is of the present history; whether the answers are of the known
               history
list_limiter   bounds the number of concurrent lists
list_watch     the meaning of a watch's end, and reasons in words (pure); the first state, and the request of a state
               (pure); its states before the store has synced (pure); the list-watch state machine (pure)
pacing         the time of the next request (pure); the number of objects in the next page (pure)
reflector      makes the requests, keeps the deadlines, and fills the DeltaFIFO
states         states, steps and results of the state machine
"""
