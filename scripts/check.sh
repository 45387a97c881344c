#!/bin/sh
# Set-up, build and tests. The last line is "N passed, N failed"; the status is 0 only when
# nothing failed. A build that fails counts as one failed test.
#
#	BUILD		the build folder (default: build)
#	MESON_ARGS	for setting it up
#	SUITES		only these test suites (default: all)
set -u

cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
MESON_ARGS=${MESON_ARGS:-}
SUITES=${SUITES:-}

give_up()
{
	echo "$1"
	echo "0 passed, 1 failed"
	exit 1
}

sh scripts/setup.sh || give_up "set-up failed"
BUILD=$BUILD MESON_ARGS=$MESON_ARGS sh scripts/configure.sh || give_up "configuring failed"
ninja -C "$BUILD" || give_up "build failed"

suite_args=
for suite in $SUITES; do
	suite_args="$suite_args --suite $suite"
done
log=$BUILD/meson-logs/testlog.json
rm -f "$log"
meson test -C "$BUILD" --no-rebuild --print-errorlogs $suite_args
status=$?
python3 scripts/count_results.py "$log" "$status"
