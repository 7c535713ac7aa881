"""The `kubedelta` command: parses the arguments, then calls the room of the command.

admin           cursors, replay, dead-letters, state, sinks, reload
command_line    the table of commands, and its parser
commands        check, rbac, sinks
completion      completion
cores           disables core dumps
default_file    the configuration of a command line without -c
demo            demo
exits           exit codes
first_lists     progress of the first lists of run
memory          returns memory to the system, and collects garbage less often
profile         prints the table of --profile-stages
running         run
schema          schema
settings        loads the configuration file of a command
status          status
shadows         warns of a foreign package with the name of one of ours
signals         signals that end the process
tail            tail
terminal        text on standard output and standard error
top             top
verify          verify
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Sequence

from bridge.cli.exits import Exit
from bridge.cli.shadows import shadowed


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line, and returns the exit code. A command whose reader closes the pipe ends quietly, with 0
    unless it has another result."""
    # First of all: with a foreign package of such a name, the imports below fail without a reason.
    for warning in shadowed():
        print(warning, file=sys.stderr)
    from bridge.cli.command_line.arguments import UsageError
    from bridge.cli.command_line.parser import parse
    from bridge.cli.cores import forbid_core_dumps
    from bridge.cli.terminal.output import complain, discard_output, flush, prepare_streams

    forbid_core_dumps()
    prepare_streams()
    try:
        gc.disable()  # Modules leave little garbage, and each collection would walk all modules before them.
        try:
            command = parse(sys.argv[1:] if arguments is None else arguments)
        finally:
            gc.freeze()
            gc.enable()
        return command()
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
        flush()
