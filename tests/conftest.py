"""Loads the testbed for all tests: real servers, asked for by fixture."""

pytest_plugins = ["tests.cluster.plugin"]
