#!/usr/bin/env bash
# Usage: test.sh [--split] [--in FOLDERS] [--not-in FOLDERS] [--impure] ARGUMENTS...
#
# Runs `swift test` with these arguments, one test at a time: a test that computes for long would hold up the others on a machine
# of two cores, deadlines and all. Failed and skipped tests are listed again at the end.
#
# A call that returns neither in time nor when it is cancelled ends the process of the tests: see `within`. Then another process runs
# the suites that have not run yet. The rest of the suite that was cut off does not run.
#
#   --split            runs the suites of pure-suites.txt in parallel, then all others one test at a time
#   --impure           leaves the suites of pure-suites.txt out
#   --in FOLDERS       runs only the suites in these files and folders, separated by spaces
#   --not-in FOLDERS   leaves the suites in these files and folders out
#   --unbuilt FOLDERS  does not build these folders; only with --in, and no suite that is to run may be in them
#
# With CI=true a test that cannot run fails; otherwise it is skipped.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# either NAMES...: a pattern for one of them
either() { local IFS='|'; echo "($*)"; }

# suites FOLDERS: a pattern for the tests in these files and folders
suites() {
  local module name names=()
  while IFS=: read -r module name; do names+=("$module[.](Peers/)?$name/"); done < <(
    # shellcheck disable=SC2086
    grep --recursive --only-matching --extended-regexp --include='*.swift' --with-filename \
      '(struct|class|actor) [A-Za-z0-9]+Tests\b' $1 | sed -E 's|^Tests/([^/]+)/[^:]*:[a-z]+ |\1:|')
  [ ${#names[@]} -gt 0 ] || { echo "test.sh: no suite is in $1" >&2; exit 1; }
  either "${names[@]}"
}

pure() {
  local names
  mapfile -t names < <(grep --invert-match '^#' Tests/Tools/pure-suites.txt | sed 's|[.]|[.]|; s|$|/|')
  either "${names[@]}"
}

# contains FOLDER PATH: whether the path is this folder, or in it
contains() { [[ $2/ == "$1"/* ]]; }

is_split=false
selection=()
chosen='' unbuilt=''
while true; do
  case ${1-} in
    --split) is_split=true; shift ;;
    --impure) selection+=(--skip "^$(pure)"); shift ;;
    --in) chosen=$2; selection+=(--filter "^$(suites "$2")"); shift 2 ;;
    --not-in) selection+=(--skip "^$(suites "$2")"); shift 2 ;;
    --unbuilt) unbuilt=$2; shift 2 ;;
    *) break ;;
  esac
done

for folder in $unbuilt; do
  # Without --in, all suites are to run.
  for path in ${chosen:-Tests}; do
    if contains "$folder" "$path" || contains "$path" "$folder"; then
      echo "test.sh: $path is to run, but $folder is not to be built" >&2; exit 1
    fi
  done
done
[ -z "$unbuilt" ] || export ACTORSOCKETS_UNBUILT=$unbuilt

# Swift's tests color their marks in a pipe, too, and the patterns below would not find them.
export NO_COLOR=1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
TIMEFORMAT='test.sh: %0R s, of processor time %0U s in programs and %0S s in the kernel'

# The end of the sentence with which `within` ends the process.
OVERDUE='nor after being cancelled: the process ends here'

# has_run: the suites that a log says have ended, and those that were cut off: the last one that began, and those in the file of
# the call that did not return
has_run() {
  local file
  sed -nE 's/^(✔|✘) Suite "?([A-Za-z0-9]+)"? (passed|failed) after .*/\2/p' "$1"
  sed -nE 's/^◇ Suite "?([A-Za-z0-9]+)"? started\..*/\1/p' "$1" | tail -n 1
  sed -nE "s|^([A-Za-z]+/[A-Za-z0-9+]+[.]swift):[0-9]+: .*$OVERDUE.*|\1|p" "$1" | sort --unique | while IFS= read -r file; do
    find "Tests/${file%%/*}" -name "${file##*/}" -exec \
      sed -nE 's/.*(struct|class|actor) ([A-Za-z0-9]+Tests).*/\2/p' {} +
  done
}

# run ARGUMENTS...: runs the tests, again without the suites that have run as long as a call does not return
run() {
  local part names=() more rest=()
  part=$(mktemp)
  while true; do
    swift test --disable-xctest "${selection[@]}" "${rest[@]}" "$@" 2>&1 | tee "$part" | tee -a "$log" || status=$?
    grep --quiet --text "$OVERDUE" "$part" || break
    status=70
    mapfile -t more < <(has_run "$part" | sort --unique)
    # Without a new name, the next process would be cut off, too.
    [ "${#more[@]}" -gt 0 ] || break
    names+=("${more[@]}")
    rest=(--skip "[./]$(either "${names[@]}")/")
    echo "test.sh: a call did not return; the suites that have not run yet follow"
  done
  rm -f "$part"
}

time if $is_split; then
  # They share the processors, so a short test may end only with the longest ones. Their deadlines are longer.
  ACTORSOCKETS_PATIENCE=${ACTORSOCKETS_PATIENCE:-5} run --parallel --filter "^$(pure)" "$@"
  run --no-parallel --skip "^$(pure)" "$@"
else
  run --no-parallel "$@"
fi

skipped=$(grep -aE '^➜ Test .* skipped' "$log" | sed -E 's/.* skipped(: )?"?//; s/"?$//' | sort | uniq --count || true)
if [ -n "$skipped" ]; then
  echo "test.sh: $(awk '{ sum += $1 } END { print sum }' <<<"$skipped") tests were skipped:"
  echo "$skipped"
fi
if [ "$status" -ne 0 ]; then
  echo "test.sh: what failed, once more:"
  grep -aE -A2 '✘|'"$OVERDUE"'|error:|Fatal error|SUMMARY: |WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer' "$log" | head -n 100 || true
fi
exit "$status"
