#!/usr/bin/env bash
# Installs sockcat with the man page and the completions that it prints itself.
#
#   install.sh SOCKCAT PREFIX
set -euo pipefail
sockcat=$1 prefix=$2
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

"$sockcat" --man >"$made/sockcat.1"
"$sockcat" --completions bash >"$made/sockcat"
"$sockcat" --completions zsh >"$made/_sockcat"

install -D --mode 755 "$sockcat" "$prefix/bin/sockcat"
install -D --mode 644 "$made/sockcat.1" "$prefix/share/man/man1/sockcat.1"
install -D --mode 644 "$made/sockcat" "$prefix/share/bash-completion/completions/sockcat"
install -D --mode 644 "$made/_sockcat" "$prefix/share/zsh/site-functions/_sockcat"
echo "installed $prefix/bin/sockcat, $(stat --format %s "$prefix/bin/sockcat") bytes"
