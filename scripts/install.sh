#!/bin/sh
# install.sh install|uninstall: what was built goes below DESTDIR, or exactly that is removed there.
#
#	BUILD		the build folder (default: build)
#	DESTDIR		where to put it instead of /, for packages
#	PREFIX		of the paths (default: as configured, at first /usr/local)
#	HELPER_DIR	where mount.stetfs and its like go; mount(8) looks in /sbin (default: PREFIX/sbin)
set -eu

cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
DESTDIR=${DESTDIR:-}

action=${1:-}
set --
[ -z "${PREFIX:-}" ] || set -- "$@" -Dprefix="$PREFIX"
[ -z "${HELPER_DIR:-}" ] || set -- "$@" -Dhelper_dir="$HELPER_DIR"
if [ $# -gt 0 ]; then
	meson configure "$BUILD" "$@"
	ninja -C "$BUILD" >"$BUILD/meson-logs/install-build.txt" 2>&1 || {
		cat "$BUILD/meson-logs/install-build.txt" >&2
		exit 1
	}
fi

# The files that an installation has, as paths from the root: it is made in an empty folder.
list_files()
{
	DESTDIR=$1 meson install -C "$BUILD" --no-rebuild --quiet >&2
	(cd "$1" && find . ! -type d | sed 's|^\.||')
}

warn_of_helpers()
{
	helper=$(grep '/mount\.stetfs$')
	case "$helper" in
	/sbin/* | /usr/sbin/*) ;;
	*) echo "install: mount(8) looks for its helpers in /sbin, not in ${helper%/*}:" \
		"\"make install HELPER_DIR=/sbin\" puts them there" ;;
	esac
}

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
files=$(list_files "$stage")

case "$action" in
install)
	DESTDIR=$DESTDIR meson install -C "$BUILD" --no-rebuild --quiet
	[ -n "$DESTDIR" ] || ldconfig 2>/dev/null || true
	echo "install: $(echo "$files" | wc -l) files below ${DESTDIR:-/}"
	echo "$files" | warn_of_helpers
	;;
uninstall)
	echo "$files" | while IFS= read -r file; do
		rm -f "$DESTDIR$file"
	done
	# Folders stay: others may use them. In a DESTDIR of its own, those that are empty are ours.
	[ -z "$DESTDIR" ] || find "$DESTDIR" -depth -mindepth 1 -type d -empty -delete 2>/dev/null || true
	[ -n "$DESTDIR" ] || ldconfig 2>/dev/null || true
	;;
*)
	echo "usage: install.sh install|uninstall" >&2
	exit 2
	;;
esac
