"""Tests of the sources of the reader library: whoever goes on from a saved position misses nothing."""
