#!/usr/bin/env bash
# Usage: descriptors.sh RUNS [SWIFT BUILD OPTIONS...]
#
# Floods `sockcat listen --echo` under a low limit of descriptors, RUNS times for each limit and each place where handlers run.
# Prints for each how many servers survived and how many connections they refused. Fails unless every server survived and
# answered after the flood. For example: descriptors.sh 50 -c release --scratch-path .build/optimised

set -euo pipefail

runs=${1:?how many runs?}
shift
cd "$(dirname "$0")/../.."
swift build --product sockcat "$@"
sockcat=$(swift build --show-bin-path "$@")/sockcat
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Appended, so that no line overwrites another one that is written at the same time.
for ((run = 0; run < runs; run++)); do
  for limit in 64 256 1024; do
    for place in pool reactor; do echo "$limit $place $run"; done
  done
done | xargs -P 4 -L 1 python3 Tests/Tools/descriptors.py "$sockcat" >>"$log" || true
awk -v runs="$runs" '
  { key = $1 " " $2; total[key]++; survived[key] += $4 == "survived"; refused[key] += $5; answers[key] += $6 }
  $4 != "survived" { print "failed:", $0 }
  END {
    print "limit place: runs, survived, connections refused, answers"
    for (key in total) {
      print key ": " total[key] ", " survived[key] ", " refused[key] ", " answers[key]
      all += survived[key]
    }
    exit all != 6 * runs
  }' "$log"
