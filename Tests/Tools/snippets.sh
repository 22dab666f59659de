#!/usr/bin/env bash
# Follows the README as a new user would: a package with its manifest beside a copy of this repository, its server, its client, and the
# first test of the article about testing. Builds them, runs the test, and lets the client talk to the server. Then it follows the article
# about the first server.
#
# The other code of the pages is quoted from Tests/SockcatTests/Examples, which QuotationTests checks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
folder=$(mktemp -d)
server=
cleanUp() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
  rm -rf "$folder"
}
trap cleanUp EXIT

# block PAGE TEXT: the first block of Swift code in a page that contains a text
block() {
  python3 - "$@" <<'END'
import re, sys
page, text = open(sys.argv[1]).read(), sys.argv[2]
blocks = re.findall(r"^```swift\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
found = [block for block in blocks if text in block]
if not found: sys.exit(f"{sys.argv[1]} has no block of code with {text}")
print(found[0], end="")
END
}

ln -s "$root" "$folder/ActorSockets"
articles=Docs/ActorSockets.docc
# makePackage NAME PROGRAM: a package with the manifest of the README and this program
makePackage() {
  mkdir -p "$folder/$1/Sources/MyServer" "$folder/$1/Tests/MyServerTests"
  block README.md 'swift-tools-version' >"$folder/$1/Package.swift"
  block README.md "$2" >"$folder/$1/Sources/MyServer/main.swift"
}

makePackage server 'TCPListener.bind'
# The target for tests goes to the end of the manifest's targets.
block "$articles/TestingAProtocol.md" '.testTarget(' >"$folder/target"
python3 - "$folder/server/Package.swift" "$folder/target" <<'END'
import sys
manifest, target = (open(path).read() for path in sys.argv[1:])
head, tail = manifest.rsplit("\n  ]\n", 1)
open(sys.argv[1], "w").write(head + ",\n" + target + "  ]\n" + tail)
END
block "$articles/TestingAProtocol.md" 'The greeting has the name in it' >"$folder/server/Tests/MyServerTests/GreetingTests.swift"
makePackage client 'connection.read(until: .lf'

(cd "$folder/server" && swift build --build-tests --quiet && swift test --skip-build)
(cd "$folder/client" && swift build --quiet)

program() { (cd "$folder/$1" && echo "$(swift build --show-bin-path)/MyServer"); }
"$(program server)" >"$folder/output" &
server=$!
client=$(program client)
end=$((SECONDS + 20))
# The server may not listen yet: then the client fails at once.
until answer=$("$client" 2>"$folder/errors"); do
  if [ $SECONDS -gt $end ]; then
    echo "snippets.sh: after 20 seconds the client still fails: $(cat "$folder/errors")" >&2
    exit 1
  fi
done
if [ "$answer" != "you said: hello" ]; then
  echo "snippets.sh: the client got \"$answer\"" >&2
  exit 1
fi
echo "snippets.sh: the README's client got its answer from the README's server, and the first test passes"

# Both servers listen on the same port.
kill "$server"
wait "$server" || true
server=
mkdir "$folder/first"
ln -s "$root" "$folder/first/ActorSockets"
Tests/Tools/follow.py "$articles/FirstServer.md" "$folder/first"
