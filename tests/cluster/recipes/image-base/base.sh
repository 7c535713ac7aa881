#!/bin/sh
# base.sh FOLDER [ARCHITECTURE]: FOLDER/base.tar, a root file system of Debian's packages that stands for the Python image
# of this tag. Another processor's programs are run by the emulation that the kernel knows.
set -eu
TAG=3.13-slim-trixie
python=python${TAG%%-*}
no_documents='--dpkgopt=path-exclude=/usr/share/doc/* --dpkgopt=path-exclude=/usr/share/man/*'
# shellcheck disable=SC2086
mmdebstrap --variant=minbase ${2:+--architectures="$2"} $no_documents --include="$python-minimal,$python-venv,ca-certificates,passwd" \
    "${TAG##*-}" "$1/base.tar"
