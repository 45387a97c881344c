#!/bin/sh
# All that `make check` promises, one build after another: everything in the plain build (gcc), the
# sanitizers (clang: address and undefined behaviour; gcc: threads), and the planted faults.
# The last line is "N passed, N failed", summed up; the status is 0 only when nothing failed.
#
#	ONLY	names of the builds to run (default: plain asan tsan mutants)
set -u

cd "$(dirname "$0")/.." || exit 1
ONLY=${ONLY:-plain asan tsan mutants}
passed=0
failed=0
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

# run NAME COMPILER BUILD MESON_ARGS SUITES: a build of its own, with its tests.
run()
{
	case " $ONLY " in
	*" $1 "*) ;;
	*) return ;;
	esac
	echo "== $1"
	CC=$2 BUILD=$3 MESON_ARGS=$4 SUITES=$5 sh scripts/check.sh 2>&1 | tee "$log"
	tally=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
	: "${tally:=0 passed, 1 failed}"
	passed=$((passed + $(echo "$tally" | cut -d ' ' -f 1)))
	failed=$((failed + $(echo "$tally" | cut -d ' ' -f 3)))
}

run plain "${CC:-gcc}" "${BUILD:-build}" "" ""

# Under the sanitizers the random tests run shorter: what counts there is each path, not their number.
export MODEL_OPS="${MODEL_OPS:-1000}" CRASH_RUNS="${CRASH_RUNS:-4}" FAULT_RUNS="${FAULT_RUNS:-1}" \
	MUTATIONS="${MUTATIONS:-400}" HISTORY_TXNS="${HISTORY_TXNS:-10000}" WHO_RUNS="${WHO_RUNS:-2000}" \
	REVERT_RUNS="${REVERT_RUNS:-12}"
run asan clang build-asan "-Db_sanitize=address,undefined -Db_lundef=false -Dparanoid=true" \
	"unit model history crash image examples"
run tsan gcc build-tsan "-Db_sanitize=thread -Db_lundef=false" "api history"
run mutants gcc build-mutants "-Dmutants=true" "mutants"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
