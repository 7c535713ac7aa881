"""``python -m bridge`` is the ``kubedelta`` command."""

from bridge.cli import main

raise SystemExit(main())
