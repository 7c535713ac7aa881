"""Turns the bytes of the API into values, without I/O. Every byte of every list and watch passes here, so this is the
hot path.

A list's body goes through ``answering`` to ``pages``, a watch's to ``frames``; both cut objects out of the text and let
``objects`` read their identity. Only the head of an object is decoded: the body stays the bytes that the server sent.

answering   classifies HTTP responses, and inflates their bodies in bounded pieces
frames      reads the stream of a watch into events, bookmarks and errors
objects     reads the identity of objects, bounds their names, and finds where JSON values end and how deep they are
pages       reads the objects of a list page while its bytes arrive
status      classifies the API's errors by the reaction that they need
"""
