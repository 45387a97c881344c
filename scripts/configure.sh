#!/bin/sh
# Configure the build folder, or again when a build file that may not have been there is newer:
# layers and tests are picked up by their meson.build, which Ninja cannot watch before it exists.
#
#	BUILD		the build folder (default: build)
#	MESON_ARGS	for setting it up
set -eu

cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}

if [ ! -f "$BUILD/build.ninja" ]; then
	# The arguments are words.
	exec meson setup "$BUILD" ${MESON_ARGS:-}
fi
for top in include src sim test bench lab examples man; do
	[ ! -d "$top" ] || find "$top" -maxdepth 3 \( -name meson.build -o -name libstetfs.map \
		-o -path src/cli/main.c -o -path include \) -newer "$BUILD/build.ninja"
done | grep -q . || exit 0
exec meson setup --reconfigure "$BUILD"
