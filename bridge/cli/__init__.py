"""The `kubedelta` command: parses the arguments, then calls the function of the command, which returns the exit code.

`command_line` has the table of all commands, and imports the module of the chosen one only then, so that a command
starts without the libraries of the others. A command that needs the configuration alone loads it itself. A command on
the state asks `admin_access`, which takes the running bridge through its socket, or the files of a stopped bridge, so
both answer alike. Results are printed on standard output, reasons on standard error, both through `terminal`, which
escapes text from strangers.

actors          actors
admin           the commands that operate on the state and on sinks, and their tables
admin_access    access to the running bridge or its files, and waiting with progress
at              at and restore
arguments       declarations of arguments, their types and errors, and the configuration of a command line without -c
check           check, rbac
command_line    every command with its arguments and its function, and the parser of them
completion      completion
console         the console of displays
demo            a bridge on a simulated cluster, shown on the terminal
exits           exit codes, and which error ends a command with which
history         history, diff
history_build   history build
line_diff       a unified diff of lines, in linear time
manifests       objects as YAML that kubectl reads
process         core dumps, memory, foreign packages and signals of the process
run             run, with the progress of the first lists and the tables of --profile-stages
schema          schema of the configuration and of events, AsyncAPI document
settings        loads the configuration file of a command
status          status
tail            tail
terminal        escaped and coloured output, tables, JSON for people, a line with the progress of what takes long
top             top: the screen, its keys, and lines that fit it
top_figures     rates between two answers, and the tables of top
verify          verify

Invariants, each with its test:

- Text from strangers does not control a terminal. ``tests/bridge/cli/test_text.py``
- A reader that closes the pipe ends a command quietly. ``tests/bridge/cli/test_closed_pipes.py``
- A run imports no library that only other commands need. ``tests/bridge/cli/test_imports.py``
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from bridge.cli.exits import CommandEnds, Exit
from bridge.cli.process import shadowed


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line, and returns the exit code. A command whose reader closes the pipe ends quietly, with 0
    unless it has another result."""
    # First of all: with a foreign package of such a name, the imports below fail without a reason.
    for warning in shadowed():
        print(warning, file=sys.stderr)
    from bridge.cli.arguments import UsageError
    from bridge.cli.command_line import parse
    from bridge.cli.process import forbid_core_dumps
    from bridge.cli.terminal import complain, discard_output, flush, prepare_streams

    forbid_core_dumps()
    prepare_streams()
    try:
        gc.disable()  # Modules leave little garbage, and each collection would walk all modules before them.
        try:
            command = parse(sys.argv[1:] if arguments is None else arguments)
        finally:
            gc.freeze()
            gc.enable()
        code = command()
        flush()
        return code
    except CommandEnds as error:
        complain(error)
        return error.code
    except UsageError as error:
        complain(error)
        return Exit.USAGE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # As for head and less: a reader that has seen enough is no failure.
        discard_output()
        return Exit.OK
    except Exception:
        complain(traceback.format_exc())
        complain("kubedelta: this is a bug; please report it with the lines above")
        return Exit.SOFTWARE
    finally:
        with suppress(CommandEnds):
            flush()
