#!/bin/sh
# The tests about size, at full size. See the Makefile for what, test/full/full.c for how.
#
#	BUILD, DIR, KILLS, MUTATIONS
set -eu

cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
work=$(mktemp -d "${DIR:-/tmp}/stetfs-full.XXXXXX")
trap 'rm -rf "$work"' EXIT

step()
{
	echo "== $*"
	"$@"
}

step "$BUILD/test/full/full_test" fill "$work" 1024 10
step "$BUILD/test/full/full_test" data "$work" 2048 64
step "$BUILD/test/full/full_test" names "$work" 300000 64
step "$BUILD/test/full/full_test" churn "$work" 1024 500
step "$BUILD/test/full/full_test" records "$work" 256 0
step "$BUILD/test/full/full_test" scattered "$work" 1024 64
step "$BUILD/test/full/full_test" queue "$work" 100000
step "$BUILD/test/full/full_test" dir "$work" 10000
step "$BUILD/test/full/full_test" dir "$work" 1000000
MUTATIONS=${MUTATIONS:-10000} step "$BUILD/test/image/image_mutate"
KILLS=${KILLS:-50} step meson test -C "$BUILD" --no-rebuild --suite kill --print-errorlogs -t 20
echo "all passed"
