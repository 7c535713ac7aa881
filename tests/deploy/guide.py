"""The commands of a guide, and a shell for them."""

from __future__ import annotations

import asyncio
import os
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.helm import ROOT
from tests.kit.deadlines import BUSY


def commands_of(guide: str, heading: str) -> list[str]:
    """The blocks of commands in a section."""
    [section] = re.findall(rf"\n#+ {heading}\n(.*?)(?=\n#|\Z)", (ROOT / "docs" / guide).read_text(), re.DOTALL)
    blocks = re.findall(r"\n\n((?:    +[^\n]*\n)+)", section)
    return [textwrap.dedent(each) for each in blocks if "kubectl" in each]


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands in a namespace in place of the guide's."""

    namespace: str
    kubeconfig: Path
    folder: Path
    """In which they run."""

    async def __call__(self, commands: str) -> str:
        """Returns the output. Raises AssertionError."""
        ours = re.sub(r"(?<=-n )kubedelta|(?<=\.)kubedelta(?=\.svc)", self.namespace, commands)
        process = await asyncio.create_subprocess_exec(
            *("sh", "-euc", ours),
            cwd=self.folder,
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await asyncio.wait_for(process.communicate(), 60 * BUSY)
        assert process.returncode == 0, error.decode()
        return out.decode()
