#!/usr/bin/env bash
# Builds the documentation of the module ActorSockets, with a link to nowhere as an error.
#
#   docs.sh OUTPUT-FOLDER
#
# DocC needs no package for it: the compiler writes down the symbols, and docc puts them together with the catalogue.
set -euo pipefail
output=$(realpath --canonicalize-missing "${1:?the output folder is missing}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

swift build --quiet --target ActorSockets
products=$(swift build --show-bin-path)
symbols=$products/docs-symbols
rm -rf "$symbols"
mkdir -p "$symbols"

# The two re-exported modules are documented as a part of ActorSockets, for that is where users meet them.
swift symbolgraph-extract -module-name ActorSockets -target "$(basename "$(dirname "$products")")" \
  -I "$products/Modules" -I Sources/CLinux/include -minimum-access-level public \
  -experimental-allowed-reexported-modules=EpollReactor,SocketSystem -output-dir "$symbols"

rm -rf "$output"
docc=docc
command -v docc >/dev/null || docc=$(dirname "$(realpath "$(command -v swift)")")/docc
"$docc" convert Docs/ActorSockets.docc --additional-symbol-graph-dir "$symbols" \
  --fallback-display-name ActorSockets --fallback-bundle-identifier ActorSockets --fallback-default-module-kind Module \
  --warnings-as-errors --transform-for-static-hosting --output-path "$output"
echo "the documentation is at ${output#"$PWD"/}/documentation/actorsockets; to read it:"
echo "  python3 -m http.server --directory ${output#"$PWD"/} 8000"
