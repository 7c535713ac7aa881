"""The ``kubedelta`` command: parse, then call ``bridge.app``.

exits            what the exit codes mean
parser           the words of the command line; admin_parser and arguments belong to it
running          run: from the file to the last line of the log
commands         one function each: check, schema, sinks
admin_commands  cursors, replay, dead-letters, state: on a running bridge or on its files (admin)
admin_tables    what these print for people, in lines that text aligns
verify           a sink's destination beside the cluster; verify_parser has its words
demo             a cluster that lives, on the terminal
view             how demo draws it
output, text     what is printed, and how it lines up; pretty is JSON for people
signals          which of them end a process, and how
settings         the file that a command was given
shadows          another package that has the name of one of ours
cores            no core dumps
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from bridge.cli.exits import Exit
from bridge.cli.shadows import shadowed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the return value is the exit code. Whoever stops reading what a command prints has had
    enough: it ends quietly, with 0 where there is no other answer."""
    for warning in shadowed():
        print(warning, file=sys.stderr)
    from bridge.cli.arguments import UsageError
    from bridge.cli.cores import forbid_core_dumps
    from bridge.cli.parser import parse
    from bridge.cli.terminal.output import complain, discard_output, flush, prepare_streams

    forbid_core_dumps()
    prepare_streams()
    try:
        return parse(sys.argv[1:] if arguments is None else arguments)()
    except UsageError as error:
        complain(error)
        return Exit.USAGE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return Exit.OK
    except Exception:
        complain(traceback.format_exc())
        complain("kubedelta: this is a bug; please report it with the lines above")
        return Exit.SOFTWARE
    finally:
        flush()
