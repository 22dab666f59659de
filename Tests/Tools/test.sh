#!/usr/bin/env bash
# Usage: test.sh [--split] [--threads] [--in FOLDERS] [--not-in FOLDERS] [--lean] ARGUMENTS...
#
# Runs `swift test` with these arguments, one test at a time: a test that computes for long would hold up the others on a machine
# of two cores, deadlines and all. It prints a line for each suite, and what fails; all that the tests print is in a file, which it names.
# At the end it lists what failed and what was skipped, and counts.
#
# A call that returns neither in time nor when it is cancelled ends the process of the tests (see `within`), as a trap and a sanitizer do.
# Then another process runs the suites that have not run yet. The rest of the suite that was cut off does not run.
#
#   --split            builds the tests, runs the suites with the tag .pure in parallel, and then all others one test at a time, in two processes
#                      that share the modules: most of these tests wait. Not with --in.
#   --threads          leaves the suites out that have only one thread: those with the tag .pure, and those in files that never wait for
#                      anything and start nothing
#   --in SUITES        runs only these suites: files, folders and tags (.manualMemory), separated by spaces. The tags are in
#                      Tests/TestSupport/Tags.swift.
#   --not-in SUITES    leaves these suites out
#   --lean             does not build the files of suites that do not run. No other file may need what such a file declares.
#
# With CI=true a test that cannot run fails; otherwise it is skipped.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# either NAMES...: a pattern for one of them
either() { local IFS='|'; echo "($*)"; }

# declared FOLDERS: a line FILE:MODULE.SUITE for each suite in these files and folders
declared() {
  # shellcheck disable=SC2086
  grep --recursive --only-matching --extended-regexp --include='*.swift' --with-filename \
    '(struct|class|actor) [A-Za-z0-9]+Tests\b' $1 | sed -E 's|^(Tests/([^/]+)/[^:]*):[a-z]+ |\1:\2.|'
}

# suites FOLDERS: a pattern for the tests in these files and folders
suites() {
  local suite names=()
  while IFS=: read -r _ suite; do names+=("${suite%.*}[.](Peers/)?${suite#*.}/"); done < <(declared "$1")
  [ ${#names[@]} -gt 0 ] || { echo "test.sh: no suite is in $1" >&2; exit 1; }
  either "${names[@]}"
}

# tagged TAG: the lines of `declared` for each suite with this tag
tagged() {
  local lines
  lines=$(grep --recursive --extended-regexp --include='*.swift' --with-filename \
    "^@Suite[(].*[.]tags[(][^)]*[.]$1\b.*(struct|class|actor) [A-Za-z0-9]+Tests\b" Tests) ||
    { echo "test.sh: no suite has the tag .$1" >&2; return 1; }
  sed -E 's,^(Tests/([^/]+)/[^:]*):.*(struct|class|actor) ([A-Za-z0-9]+Tests)\b.*,\1:\2.\4,' <<<"$lines"
}

# files SUITES: these files and folders, and the files with suites that have these tags
files() {
  local part
  for part in $1; do
    if [[ $part == .* ]]; then tagged "${part#.}" | cut --delimiter=: --fields=1 || exit 1; else echo "$part"; fi
  done | sort --unique | tr '\n' ' '
}

pure() {
  local suite names=()
  while IFS=: read -r _ suite; do names+=("${suite%.*}[.]${suite#*.}/"); done < <(tagged pure)
  either "${names[@]}"
}

# without_threads: the files whose suites all have the tag .pure, and those with suites that never wait for anything and start nothing
without_threads() {
  grep --recursive --files-without-match --word-regexp --extended-regexp 'await|Task|Thread|Reactor|Program|fork' \
    --include='*Tests.swift' Tests
  comm -23 <(declared Tests | cut --delimiter=: --fields=1 | sort --unique) \
    <(comm -23 <(declared Tests | sort --unique) <(tagged pure | sort --unique) | cut --delimiter=: --fields=1 | sort --unique)
}

# contains FOLDER PATH: whether the path is this folder, or in it
contains() { [[ $2/ == "$1"/* ]]; }

is_split=false is_lean=false is_threaded=false
selection=()
chosen='' left_out=''
while true; do
  case ${1-} in
    --split) is_split=true; shift ;;
    --lean) is_lean=true; shift ;;
    --threads)
      is_threaded=true
      single=$(without_threads | sort --unique | tr '\n' ' ')
      selection+=(--skip "^$(either "$(pure)" "$(suites "$single")")")
      left_out+=" $single"
      shift ;;
    --in) chosen=$(files "$2"); selection+=(--filter "^$(suites "$chosen")"); shift 2 ;;
    --not-in)
      excluded=$(files "$2")
      left_out+=" $excluded"
      selection+=(--skip "^$(suites "$excluded")")
      shift 2 ;;
    *) break ;;
  esac
done

# runs FILE: whether the suites in this file are to run
runs() {
  local path
  for path in $left_out; do if contains "$path" "$1"; then return 1; fi; done
  # Without --in, all suites are to run.
  for path in ${chosen:-Tests}; do if contains "$path" "$1"; then return; fi; done
  return 1
}

# unneeded: the files with suites that do not run, and the folders of modules with nothing else
unneeded() {
  local folder file files out
  for folder in Tests/*Tests; do
    mapfile -t files < <(find "$folder" -name '*Tests.swift' | sort)
    out=()
    for file in "${files[@]}"; do runs "$file" || out+=("$file"); done
    if [ "${#out[@]}" -eq "${#files[@]}" ]; then echo "$folder"; else printf '%s\n' "${out[@]}"; fi
  done
}
if $is_lean; then
  ACTORSOCKETS_UNBUILT=$(unneeded | tr '\n' ' ')
  export ACTORSOCKETS_UNBUILT
fi

# The file for what the tests print is in the folder of the build, so that builds at the same time have files of their own.
folder=.build
arguments=("$@")
for index in "${!arguments[@]}"; do
  if [ "${arguments[index]}" = --scratch-path ]; then folder=${arguments[index + 1]}; fi
done
mkdir -p "$folder"
log=$folder/tests.log
: >"$log"
parts=$(mktemp --directory)
trap 'rm -rf "$parts"' EXIT
: >"$parts/early"

# Swift's tests color their marks in a pipe, too, and the patterns below would not find them.
export NO_COLOR=1
# The end of the sentence with which `within` ends the process.
OVERDUE='nor after being cancelled: the process ends here'
# What a process says that ends early, besides that.
CRASH='Fatal error|^💣|unexpected signal|SUMMARY: |WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer'

# whole_lines: begins a line for each result. Swift's tests cut a line at a NUL in an argument, its end included.
whole_lines() {
  perl -pe 'BEGIN { $| = 1 } 1 while s/^((?:◇|✔|✘|➜) .*? → "[^"\n]*)(?=(?:◇|✔|✘|➜) (?:Test|Suite) )/$1\n/m'
}

# failures: of the output of tests, what fails, and the errors of a build. Behind a crash or the report of a sanitizer it prints all that
# follows, until the tests go on.
#
# show: the same while the tests run, warnings of a build, and a line for each suite; all of the output goes to the file
failures() { filter false; }
show() { filter true; }
filter() {
  # Not awk, which may wait for 4 KB before it shows a line.
  perl -e '
    my ($is_live, $log, $overdue, $crash) = ($ARGV[0] eq "true", @ARGV[1 .. 3]);
    my $is_shown = 0;
    $| = 1;
    if ($is_live) {
      open(LOG, ">>", $log) or die "$log: $!";
      select((select(LOG), $| = 1)[0]);
    }
    while (<STDIN>) {
      # A process that crashes may leave a line without an end.
      $_ .= "\n" unless /\n\z/;
      print LOG if $is_live;
      if ($is_live && /^(✔ Suite |Build complete)/ || /^➜ Test .* was cancelled/) { $is_shown = 0; print }
      elsif (/^(◇|➜|✔)/) { $is_shown = 0 }
      elsif (/^✘ Test run with /) {}
      elsif (/$crash/) { $is_shown = 1; print }
      elsif (/^✘|error: |^test[.]sh: |\Q$overdue\E/ || $is_live && /warning: /) { $is_shown = /^✘/; print }
      elsif ($is_shown) { print }
    }' "$1" "$log" "$OVERDUE" "$CRASH"
}

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

# run NAME ARGUMENTS...: runs the tests, again without the suites that have run as long as a process ends early
run() {
  local part=$parts/$1 status=0 names=() more rest=()
  shift
  while true; do
    swift test --disable-xctest "${selection[@]}" "${rest[@]}" "$@" 2>&1 | whole_lines | tee "$part" | show || status=$?
    if grep --quiet --text --extended-regexp '^(✔|✘) Test run with ' "$part"; then break; fi
    mapfile -t more < <(has_run "$part" | sort --unique)
    # Without a new name, the tests could not be built or begun, or the next process would be cut off, too.
    [ "${#more[@]}" -gt 0 ] || { [ "$status" -ne 0 ] || status=70; break; }
    status=70
    echo "test.sh: the process of these tests ended early" | tee -a "$log" "$parts/early"
    names+=("${more[@]}")
    rest=(--skip "[./]$(either "${names[@]}")/")
    echo "test.sh: the suites that have not run yet follow"
  done
  return "$status"
}

# build ARGUMENTS...: builds the tests. Where no terminal shows progress in one line, it would be a thousand lines.
build() {
  if [ -t 1 ]; then
    swift build --build-tests "$@"
  else
    echo "test.sh: building the tests, which takes some minutes the first time"
    swift build --quiet --build-tests "$@"
  fi
}

status=0
TIMEFORMAT='test.sh: %0R s, of processor time %0U s in programs and %0S s in the kernel'
if $is_split; then
  build "$@"
  set -- --skip-build "$@"
fi
time if $is_split; then
  # They share the processors. Each begins when it has one, so its deadline is for its own time.
  $is_threaded || run pure --parallel --experimental-maximum-parallelization-width "$(nproc)" --filter "^$(pure)" "$@" || status=$?
  # Both work in the folder of one build. Without --ignore-lock, the second process would wait for the first one.
  run sockets --ignore-lock --no-parallel --skip "^$(pure)" --filter '^ActorSocketsTests[.]' "$@" &
  run others --ignore-lock --no-parallel --skip "^($(pure)|ActorSocketsTests[.])" "$@" || status=$?
  wait $! || status=$?
else
  run all --no-parallel "$@" || status=$?
fi

# count PATTERN: how many lines of the file it matches
count() { grep --text --count --extended-regexp "$1" "$log" || true; }
skipped=$(grep -aE '^➜ Test .* skipped' "$log" | sed -E 's/.* skipped(: )?"?//; s/"?$//' | sort | uniq --count || true)
[ -z "$skipped" ] || printf 'test.sh: skipped, and why:\n%s\n' "$skipped"
# A test that somebody else cancelled has not shown anything, although Swift's tests do not count it as failed.
cancelled=$(count '^➜ Test .* was cancelled')
[ "$cancelled" -eq 0 ] || [ "$status" -ne 0 ] || status=1
if [ "$status" -ne 0 ]; then
  echo "test.sh: what failed, once more:"
  failures <"$log" | head -n 100 || true
fi
echo "test.sh: all that the tests printed is in $log"
passed=$(($(count '^✔ Test .* passed after') - $(count '^✔ Test run with ')))
failed=$(($(count '^✘ Test .* failed after') - $(count '^✘ Test run with ') + $(wc --lines <"$parts/early") + cancelled))
echo "test.sh: $passed passed, $failed failed, $(count '^➜ Test .* skipped') skipped"
exit "$status"
