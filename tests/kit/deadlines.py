"""Deadlines of tests: a deadline bounds how long a failure takes, and a busy machine must not reach it."""

from __future__ import annotations

BUSY = 4
"""Times a deadline that suits a quiet machine. The suite passed beside eight other jobs on two cores with it."""
