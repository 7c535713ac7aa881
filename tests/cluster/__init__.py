"""The testbed: real servers on loopback ports, built once and started once per test run."""
