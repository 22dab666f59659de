#!/usr/bin/env bash
# Checks what `make install` installs: that the program runs without Swift's libraries, and that the other files are where they are
# looked for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

fail() {
  echo "installation: $1" >&2
  exit 1
}

make --no-print-directory install DESTDIR="$root" PREFIX=/opt/sockcat
prefix=$root/opt/sockcat

libraries=$(ldd "$prefix/bin/sockcat")
[[ $libraries != *swift* && $libraries != *Foundation* ]] || fail "the program needs libraries of Swift: $libraries"
env --ignore-environment "$prefix/bin/sockcat" demo >/dev/null || fail "the demo fails"

[[ $(find "$root" -type f | wc -l) == 4 ]] || fail "there are other files than expected: $(find "$root" -type f)"
messages=$(groff -ww -man -Tascii "$prefix/share/man/man1/sockcat.1" 2>&1 >/dev/null)
[[ -z $messages ]] || fail "groff: $messages"
bash -n "$prefix/share/bash-completion/completions/sockcat"
zsh -n "$prefix/share/zsh/site-functions/_sockcat"
echo "installation: everything is right; the program needs:$(sed -n 's/^\s*\(\S*\).*/ \1/p' <<<"$libraries" | tr -d '\n')"
