#!/bin/sh
# The exercisers of a mount (test/exercise/), longer than in the test suite. As root.
#
#	BUILD	the build folder
#	SCALE	so many times as long as in the test suite (10)
#	SEED	of all of them (the time)
#	ONLY	some of: files names isolation waiting programs (all)
#	DIR	where the volumes are made (/tmp)
set -eu

cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
SCALE=${SCALE:-10}
ONLY=${ONLY:-files names isolation waiting programs}
STETFS=$(realpath "$BUILD/stetfs")
EXERCISE_SEED=${SEED:-$(date +%s)}
EXERCISE_DIR=${DIR:-/tmp}
EXERCISE_LIMIT=$((SCALE * 600))
export STETFS EXERCISE_SEED EXERCISE_DIR EXERCISE_LIMIT

# step NAME COMMAND...
step()
{
	case " $ONLY " in
	*" $1 "*) ;;
	*) return 0 ;;
	esac
	shift
	echo "== $*"
	"$@"
}

for mode in plain direct aio aio_direct uring uring_direct; do
	step files env EXERCISE_OPS=$((SCALE * 50000)) "$BUILD/test/exercise/exercise_files" $mode
done
step names env EXERCISE_ROUNDS=$((SCALE * 4)) "$BUILD/test/exercise/exercise_names"
step isolation env EXERCISE_COMMITS=$((SCALE * 10000)) "$BUILD/test/exercise/exercise_isolation"
step waiting env EXERCISE_SECONDS=$((SCALE * 8)) "$BUILD/test/exercise/exercise_waiting"
# A build in a transaction reserves far more than it holds: hence the size.
step programs env EXERCISE_KILLS=$((SCALE * 4)) EXERCISE_BUILD=1 STET_MOUNT_SIZE=4G \
	TMPDIR="$EXERCISE_DIR" \
	python3 test/exercise/test_programs.py
echo "all passed"
