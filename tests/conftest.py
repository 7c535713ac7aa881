"""Loads the testbed for all tests: real servers, asked for by fixture."""

from hypothesis import HealthCheck, settings

# Neither the time of one example nor that of making one says anything about the bridge on a machine that others use.
settings.register_profile("kubedelta", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kubedelta")

pytest_plugins = ["tests.cluster.plugin"]
