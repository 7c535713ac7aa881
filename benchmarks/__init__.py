"""Measured claims. ``make bench`` prints what the whole bridge costs per event on this machine."""
