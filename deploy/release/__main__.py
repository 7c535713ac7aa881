"""Makes the files of a release, and prints the commands that would publish them."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from deploy.release import ROOT
from deploy.release.artefacts import Release, Tools
from deploy.release.engines import engine_of
from deploy.release.notes import notes_of
from deploy.release.obstacles import unfinished, unsigned, version_of, wrong_versions


def main(words: list[str] | None = None) -> int:
    """0 if every file was made; 1 with the reasons otherwise."""
    options = _parser().parse_args(words)
    version = version_of(ROOT)
    try:
        notes = notes_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
        tools = Tools(
            helm=options.helm,
            engine=engine_of(options.engine),
            base=options.base,
            platforms=options.platforms,
            sign=options.sign,
        )
    except (LookupError, ValueError) as error:
        return _refuse([str(error)])
    open_ends = list(unfinished(ROOT, notes, options.base))
    wrong = [*wrong_versions(ROOT, version), *unsigned(options.sign)]
    if reasons := [*wrong, *([] if options.trial else open_ends)]:
        return _refuse(reasons)
    release = Release(notes, ROOT, options.dist.resolve())
    try:
        release.make(tools)
    except (subprocess.CalledProcessError, OSError) as error:
        return _refuse([str(error)])
    for each in open_ends:
        print(f"a trial: {each}")
    print(f"{version} is in {release.dist}; nothing was uploaded. To publish it:")
    print("\n".join(f"  {command}" for command in release.uploads(tools)))
    return 0


def _refuse(reasons: list[str]) -> int:
    for reason in reasons:
        print(f"no release: {reason}", file=sys.stderr)
    return 1


def _key(text: str) -> Path | None:
    """None for an empty text: the Makefile passes one without SIGN."""
    return Path(text).expanduser().resolve() if text else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="deploy.release", description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder to fill")
    parser.add_argument("--helm", default="helm")
    parser.add_argument("--engine", default="", help="docker, podman or buildah; the first of them by default")
    parser.add_argument("--base", default="", help="the image's base, by its digest")
    parser.add_argument("--platforms", default="", help="of the image: linux/amd64,linux/arm64")
    parser.add_argument("--sign", type=_key, help="the SSH key that signs the checksums")
    parser.add_argument("--trial", action="store_true", help="from any tree, without a day or a digest")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
