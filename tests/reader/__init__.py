"""Tests of the reader library: rules, vectors, stores, and a model of the bridge."""
