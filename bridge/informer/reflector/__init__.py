"""Lists and watches one resource, and proves that the server's history is the known one.

comparison      the part of the known objects that is of the present history
history         proves the history once for all informers of an API server
list_limiter    bounds the number of concurrent lists
list_watch      the list-watch state machine (pure)
member_history  the history as one informer asks for it
pacing          the time of the next request (pure)
page_size       the number of objects in the next page (pure)
proof           the conclusion from an answer about the history (pure)
prover          makes the requests of a proof
reflector       makes the requests, keeps the deadlines, and fills the DeltaFIFO
states          states, steps and results of the state machine
"""
