#!/usr/bin/env bash
# Usage: test.sh ARGUMENTS...
#
# Runs `swift test` with these arguments, one test at a time: a test that computes for long would hold up the others on a machine
# of two cores, deadlines and all. What failed is said once more at the end, where it is found.

set -euo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
swift test --disable-xctest --no-parallel "$@" 2>&1 | tee "$log" || status=$?
if [ "$status" -ne 0 ]; then
  echo "test.sh: what failed, once more:"
  grep -aE -A2 '✘|error:|Fatal error|SUMMARY: |WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer' "$log" | head -n 100 || true
fi
exit "$status"
