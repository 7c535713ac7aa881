"""The page: a picture of the running pipeline for people, and a few of the operator's commands.

picture   makes the picture of the state, with rates and the backlogs of the last hour, as JSON
server    judges requests, and serves the files, the event stream and the commands
viewers   feeds those who look: events, and records as a sink gets them

Nothing is computed and nothing subscribed while nobody looks, except a sample of every backlog each ten seconds:
``test_nothing_happens_while_nobody_looks``. A tap on the processor, a picture each second and the form of a sink's
records exist from the first viewer to the last. The sample exists always, because a chart of the last hour cannot be
made afterwards. Rates are counted at the tap, so the hot path counts nothing for the page. A picture of 100 resources
and 6 sinks takes 0.4 ms, a record 0.5 µs, and a record that a viewer sees 23 µs.

A page that reads ``/metrics`` and keeps rates in the browser would need no code here, but has neither records nor dead
letters nor a past.
"""
