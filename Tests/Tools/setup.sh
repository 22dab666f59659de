#!/usr/bin/env bash
# Installs the Debian packages that are missing, and says which, and what for. If no package is missing, it does nothing and needs no
# network. It asks nothing, so that it works without a terminal.
#
#   setup.sh [--for PURPOSE PROBE:PACKAGE...]...
#
# A probe is what the package brings: a command, a shared library (lib….so, lib….so.N), or a file by its path, which may be a
# pattern. The first two count as there wherever they come from, so nothing is installed beside what a machine has of its own.
#
# Some packages bring servers, which the tests start by themselves. Debian would start them now, and whenever the machine starts. Neither
# happens; a server that the machine had before stays as it is.
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

missing=()
reasons=''
purpose=''
while [ $# -gt 0 ]; do
  if [ "$1" = --for ]; then
    purpose=$2
    shift 2
    continue
  fi
  package=${1#*:}
  if ! is_there "${1%%:*}" && [[ " ${missing[*]} " != *" $package "* ]]; then
    missing+=("$package")
    reasons+="$purpose:$package"$'\n'
  fi
  shift
done

# explain: a line for each purpose
explain() {
  awk -F: '$1 != last { if (last) print line; last = $1; line = "  for " $1 ":" } { line = line " " $2 } END { print line }' \
    <<<"${reasons%$'\n'}" >&2
}

as_root=()
policy=/usr/sbin/policy-rc.d
made_policy=false
before=''

# starting: the links by which servers start with the machine, those of systemd and those of init scripts
starting() {
  find /etc/systemd/system /etc/rc[2-5].d -type l \( -path '*.wants/*' -o -path '/etc/rc*/S*' \) \
    ! -path '*/timers.target.wants/*' 2>/dev/null | sort || true
}

# sources PACKAGES...: their source packages. dovecot-imapd and dovecot-core, which has the server, are of one
sources() { dpkg-query --show --showformat '${source:Package}\n' "$@" 2>/dev/null | sort --unique || true; }

# disable_servers: the servers of the packages that were missing do not start with the machine. Their links are new. Other links stay, for
# example those of cron, which comes with one of the packages.
disable_servers() {
  local link name file package
  while IFS= read -r link; do
    name=${link##*/}
    file="*/systemd/system/$name"
    # An init script is linked as S01name.
    if [[ $link == /etc/rc* ]]; then name=${name#S??}; file=/etc/init.d/$name; fi
    package=$(dpkg-query --search "$file" 2>/dev/null | sed -n '1s/:.*//p' || true)
    [ -n "$package" ] && comm -12 <(sources "$package") <(sources "${missing[@]}") | grep --quiet . || continue
    case $link in
      # All links of an init script change with the first one.
      /etc/rc*) [ ! -L "$link" ] || "${as_root[@]}" update-rc.d "$name" disable ;;
      # It works while systemd does not run, too.
      *) if command -v systemctl; then "${as_root[@]}" systemctl --quiet disable "$name"; else "${as_root[@]}" rm "$link"; fi ;;
    esac </dev/null >/dev/null 2>&1 || echo "setup: $name could not be disabled, so it will start with the machine" >&2
  done < <(comm -13 <(echo "$before") <(starting))
}

# Also when apt-get fails or is interrupted: what it has configured by then has its links.
finish() {
  if $made_policy; then "${as_root[@]}" rm -f "$policy"; fi
  disable_servers
}

install() {
  if ! command -v apt-get >/dev/null; then
    echo "setup: this is no Debian. Going on without what these Debian packages bring" >&2
    explain
    return
  fi
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: something is missing that only root can install: apt-get install $*" >&2
      explain
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "setup: installing $# Debian packages" >&2
  explain
  echo "  Servers among them are neither started nor enabled." >&2
  before=$(starting)
  trap finish EXIT
  if [ ! -e "$policy" ]; then
    made_policy=true
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
  fi
  # A list that cannot be fetched need not be the one that counts.
  "${as_root[@]}" apt-get update -qq || echo "setup: going on with the package lists that are there" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes -qq --no-install-recommends "$@" >/dev/null
}

[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"

if ! command -v swift >/dev/null; then
  echo "setup: there is no Swift toolchain in PATH; version 6.3 is needed: https://www.swift.org/install/linux" >&2
  exit 1
fi
