"""Lists and watches one resource, as client-go's reflector does, and fills the DeltaFIFO.

The Reflector makes the request that the present state asks for (``list_watch``), gives the answer to the state machine,
and carries out the step that comes back: updates of the store, and the time of the next request (``pacing``). The state
machine has no clock and makes no I/O, so its tests name states and answers alone. Before an answer counts, its history
is assured (``assurance``).

assurance   decides whether an answer, and which of the known objects, are of the known history
list_watch  decides the next state, the updates of the store and the next request, from a state and an answer
pacing      computes the pause before the next request, and the number of objects in the next page
reflector   makes the requests, keeps the deadlines, and fills the DeltaFIFO; bounds how many informers list at once
states      defines the states, answers and steps of the state machine
"""
