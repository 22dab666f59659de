#!/usr/bin/env bash
# Builds the documentation of the modules ActorSockets, ActorSocketsTLS, ActorSocketsTesting and ActorSocketsTestTraits. A broken
# link is an error, and so is a symbol without a description, or without a topic on a long page.
#
#   docs.sh OUTPUT-FOLDER
#
# DocC needs no package for it: the compiler writes down the symbols, and docc puts them together with the catalogue.
set -euo pipefail
output=$(realpath --canonicalize-missing "${1:?the output folder is missing}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

swift build --quiet --target ActorSocketsTLS
swift build --quiet --target ActorSocketsTestTraits
products=$(swift build --show-bin-path)
symbols=$products/docs-symbols
rm -rf "$symbols"
mkdir -p "$symbols"

# Members that a type inherits from a protocol, such as the methods of ByteStream and of AsyncSequence, are documented once: where
# they are declared.
#
# extract MODULE RE-EXPORTED-MODULES
extract() {
  swift symbolgraph-extract -module-name "$1" -target "$(basename "$(dirname "$products")")" \
    -I "$products/Modules" -I Sources/CLinux/include -I Sources/CVirtualTime/include -I Sources/COpenSSL -minimum-access-level public \
    -skip-synthesized-members -experimental-allowed-reexported-modules="$2" -output-dir "$symbols"
}

# The two re-exported modules are documented as a part of ActorSockets, because that is the module that users import. So are
# the other modules: otherwise links between them would have to spell out the module. The sections about them say what to import.
extract ActorSockets EpollReactor,SocketSystem
for module in ActorSocketsTLS ActorSocketsTesting ActorSocketsTestTraits; do
  extract "$module" ""
  sed -i "s/\"name\": *\"$module\"/\"name\":\"ActorSockets\"/" "$symbols/$module"*.symbols.json
  for extensions in "$symbols/$module@"*.symbols.json; do
    [ -e "$extensions" ] || continue
    extended=${extensions##*@}
    mv "$extensions" "$symbols/$module-Extensions-$extended"
  done
done

rm -rf "$output"
docc=docc
command -v docc >/dev/null || docc=$(dirname "$(realpath "$(command -v swift)")")/docc
"$docc" convert Docs/ActorSockets.docc --additional-symbol-graph-dir "$symbols" \
  --fallback-display-name ActorSockets --fallback-bundle-identifier ActorSockets --fallback-default-module-kind Module \
  --warnings-as-errors --transform-for-static-hosting --output-path "$output"
Tests/Tools/reference.py "$output"
echo "the documentation is at ${output#"$PWD"/}/documentation/actorsockets; to read it:"
echo "  python3 -m http.server --directory ${output#"$PWD"/} 8000"
