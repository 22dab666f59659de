#!/usr/bin/env bash
# Installs the Debian packages that are missing. If no package is missing, it does nothing and needs no network.
#
#   setup.sh PROBE:PACKAGE...
#
# A probe is what the package brings: a command, a shared library (lib….so, lib….so.N), or a file by its path, which may be a
# pattern. The first two count as there wherever they come from, so nothing is installed beside what a machine has of its own.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

is_there() {
  case $1 in
    # Not with grep --quiet, which would end ldconfig by SIGPIPE.
    lib*.so | lib*.so.*) ldconfig -p | grep --fixed-strings "$1 " >/dev/null ;;
    /*) compgen -G "$1" >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

install() {
  local as_root=()
  if ! command -v apt-get >/dev/null; then
    echo "setup: this is no Debian; going on without what these packages bring: $*" >&2
    return
  fi
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: something is missing that only root can install: apt-get install $*" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "setup: installing $*" >&2
  # Some of them are servers, which Debian would start at once; the tests start them by themselves.
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
    trap "${as_root[*]} rm -f $policy" EXIT
  fi
  # A list that cannot be fetched need not be the one that counts.
  "${as_root[@]}" apt-get update -qq || echo "setup: going on with the package lists that are there" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes -qq --no-install-recommends "$@" >/dev/null
}

missing=()
for need in "$@"; do
  is_there "${need%%:*}" || missing+=("${need#*:}")
done
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"

if ! command -v swift >/dev/null; then
  echo "setup: there is no Swift toolchain in PATH; version 6.3 is needed: https://www.swift.org/install/linux" >&2
  exit 1
fi
