"""The composition root: the only room that knows every other, and the one that joins them.

bridge         builds the rooms, runs them in one task group, ends them in order
subscriptions  configured names → informers, as resources appear and go
exporter       a batch of changes → outbox → every listener
status         how things stand, for /readyz and the gauges
stages         where the CPU of a run goes, for whoever asks
check          what `kubedelta check` tries before anything runs
"""
