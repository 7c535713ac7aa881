"""The `kubedelta` command: parses the arguments, then calls the room of the command.

admin           a function for each command, but reload and snapshot; begins, shows and cancels snapshots on demand;
                lets the running bridge read its configuration again
admin_access    reaches the running bridge through its socket, or its files; finds the running bridge of a file;
                waits for what a command has begun, with its progress
admin_tables    their output for people
arguments       types of arguments and their errors
command_line    the table of commands, and its parser
command_table   the part of the table about the state and the running bridge; every command with its arguments and
                its function
commands        check, rbac, sinks
completion      completion
console         the console of displays
default_file    the configuration of a command line without -c
demo            draws each delta and the state of the sinks; runs a bridge on the playground
exits           exit codes
process         disables core dumps; returns memory to the system, and collects garbage less often; warns of a
                foreign package with the name of one of ours; signals that end the process
profile         prints the table of --profile-stages
progress        progress of what takes long
running         progress of the first lists of run; run
schema          AsyncAPI document of all sinks; JSON Schema of the records that sinks send; schema, schema events,
                schema asyncapi
settings        loads the configuration file of a command
status          status
tail            the records that the options choose; a record as a line for people; prints records; records that the
                running bridge commits; reads records and prints them, until the reader leaves
terminal        colours of texts, on a terminal alone; writes lines, and ends quietly when the reader closes its
                pipe; JSON for people; aligned columns, shortened cells
top             single keys of the terminal; rows as lines that fit the terminal; asks the running bridge again and
                again, and shows its answers
top_figures     two answers as rates; figures as rows of text, in the chosen order
verify          verify
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Sequence

from bridge.cli.exits import Exit
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
