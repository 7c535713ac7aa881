"""The page: a picture of the running pipeline for people, and a few of the operator's commands.

Nothing is computed and nothing subscribed while nobody looks, except a sample of every backlog each ten seconds.

picture   backlogs of the last hour; the state of the bridge, with rates, as JSON
server    who may look, and who may change something; the files of the page; serves the files, the event stream and
          the commands
viewers   server-sent events to a viewer; records as a sink gets them, by a viewer's choice; who looks, and what each
          is sent; works only while someone looks

A tap on the processor, a picture each second and the form of a sink's records exist from the first viewer to the last.
The sample exists always, because a chart of the last hour cannot be made afterwards. Rates are counted at the tap, so
the hot path counts nothing for the page. A picture of 100 resources and 6 sinks takes 0.4 ms, a record 0.5 µs, and a
record that a viewer sees 23 µs. A page that reads ``/metrics`` and keeps rates in the browser would need no code here,
but has neither records nor dead letters nor a past.
"""
