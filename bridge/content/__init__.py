"""The content that the options of sinks make of objects.

compile      the expressions in a sink's options → SinkContent, with all mistakes at once
maker        adds the content to the records of a sink
recent       values of recent records, which all sinks share
differences  the differences between two states that sinks ask for
patches      JSON Merge Patch and JSON Patch from a state to the next
changed      the paths at which two states differ
"""

from bridge.content.compile import ContentPart, SinkContent, WrongContent, compile_content
from bridge.content.maker import ContentMaker, content_makers
from bridge.content.recent import RecentValues

__all__ = [
    "ContentMaker",
    "ContentPart",
    "RecentValues",
    "SinkContent",
    "WrongContent",
    "compile_content",
    "content_makers",
]
