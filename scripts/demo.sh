#!/bin/sh
# The demonstration, with what was built; where nothing was, it is built without the tests, in a folder
# of its own, and only the packages for that are installed.
#
#	BUILD	the build folder (default: build)
set -eu

cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}

if [ ! -f "$BUILD/build.ninja" ]; then
	BUILD=build-demo
	ONLY_BUILD=yes sh scripts/setup.sh
	BUILD=$BUILD MESON_ARGS="-Dtests=false" sh scripts/configure.sh
fi
ninja -C "$BUILD" stetfs
BUILD=$BUILD exec sh test/demo.sh
