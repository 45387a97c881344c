#!/bin/sh
# What install puts there works, is complete, and uninstall removes exactly that.
#
#	test_install.sh BUILD
set -eu

BUILD=$1
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dest=$work/dest
prefix=$(sed -n 's/.*"prefix", *"value": *"\([^"]*\)".*/\1/p' "$BUILD/meson-info/intro-buildoptions.json")
: "${prefix:=/usr/local}"

fail()
{
	echo "FAIL: $*" >&2
	exit 1
}

list()
{
	(cd "$dest" && find . | sort)
}

# Somebody else's files, in the same folders.
mkdir -p "$dest$prefix/bin" "$dest$prefix/share/man/man1"
echo theirs >"$dest$prefix/bin/other"
echo theirs >"$dest$prefix/share/man/man1/other.1"
list >"$work/before"

BUILD=$BUILD DESTDIR=$dest sh scripts/install.sh install >"$work/said" || fail "install: $(cat "$work/said")"
list >"$work/installed"
program=$dest$prefix/bin/stetfs

[ "$("$program" version)" = "$("$BUILD/stetfs" version)" ] || fail "the program"
for name in mount.stetfs mount.fuse.stetfs mkfs.stetfs fsck.stetfs; do
	link=$(grep "/$name\$" "$work/installed") || fail "no $name"
	[ "$(readlink -f "$dest/$link")" = "$(readlink -f "$program")" ] || fail "$name leads elsewhere"
done
"$dest$prefix/sbin/mkfs.stetfs" -q "$work/v.stet" --size 16M || fail "mkfs.stetfs"
"$dest$prefix/sbin/fsck.stetfs" -a "$work/v.stet" >/dev/null || fail "fsck.stetfs"

for what in include/stetfs.h include/stetfs_lowlevel.h libstetfs.a libstetfs.so pkgconfig/libstetfs.pc \
	bash-completion/completions/stetfs; do
	grep -q "/$what\$" "$work/installed" || fail "no $what"
done
if command -v scdoc >/dev/null; then
	for page in man/*.scd; do
		page=${page#man/}
		page=${page%.scd}
		grep -q "/man${page##*.}/$page\$" "$work/installed" || fail "no $page"
	done
	[ -s "$dest$prefix/share/man/man8/mount.fuse.stetfs.8" ] || fail "mount.fuse.stetfs.8"
fi

# A program that is built with what was installed, by pkg-config, runs with it.
pc=$(dirname "$(grep '/libstetfs.pc$' "$work/installed")")
export PKG_CONFIG_PATH="$dest/$pc" PKG_CONFIG_SYSROOT_DIR="$dest"
lib=$(cd "$dest/$pc/.." && pwd)
# shellcheck disable=SC2046 # words
${CC:-cc} -o "$work/one_file" examples/one_file.c $(pkg-config --cflags --libs libstetfs) || fail "compiling"
LD_LIBRARY_PATH=$lib "$work/one_file" "$work/one.stet" >/dev/null || fail "an example"

if command -v bash >/dev/null; then
	PATH=$dest$prefix/bin:$PATH bash -c '
		. "$1"
		COMP_WORDS=(stetfs um) COMP_CWORD=1; _stetfs; [ "${COMPREPLY[*]}" = umount ] || exit 1
		COMP_WORDS=(stetfs mkfs --si) COMP_CWORD=2; _stetfs; [ "${COMPREPLY[*]}" = --size ]
	' bash "$dest$prefix/share/bash-completion/completions/stetfs" || fail "completion"
fi

BUILD=$BUILD DESTDIR=$dest sh scripts/install.sh uninstall || fail "uninstall"
list >"$work/after"
diff "$work/before" "$work/after" || fail "uninstall leaves something, or takes too much"
BUILD=$BUILD DESTDIR=$dest sh scripts/install.sh uninstall || fail "uninstall again"

# The helpers go where HELPER_DIR says, and only there, also when the folder was set up without it: so
# in one of its own, that nobody else's settings are changed.
again=$work/build
other=$work/other
{
	meson setup "$again" -Dprefix=/opt/stet -Dtests=false -Doptimization=0 -Ddebug=false &&
		ninja -C "$again"
} >"$work/said" 2>&1 || fail "building: $(cat "$work/said")"

# with_helpers install|uninstall [VARIABLE=VALUE]
with_helpers()
{
	env BUILD="$again" DESTDIR="$other" PREFIX= HELPER_DIR= ${2:+"$2"} \
		sh scripts/install.sh "$1" >"$work/said" 2>&1 ||
		fail "$1 ${2:-}: $(cat "$work/said")"
}

for dir in "" /sbin /usr/libexec/stet; do
	with_helpers install ${dir:+"HELPER_DIR=$dir"}
	for name in mount.stetfs mount.fuse.stetfs mkfs.stetfs fsck.stetfs; do
		found=$(cd "$other" && find . -name "$name")
		[ "$found" = ".${dir:-/opt/stet/sbin}/$name" ] || fail "HELPER_DIR=$dir: $name is at $found"
	done
	if [ "$dir" = /sbin ]; then
		[ "$(readlink "$other/sbin/mount.stetfs")" = /opt/stet/bin/stetfs ] || fail "the link in /sbin"
		! grep -q "looks for its helpers" "$work/said" || fail "a hint that is not true"
	else
		grep -q "looks for its helpers in /sbin, not in ${dir:-/opt/stet/sbin}: \"" "$work/said" ||
			fail "HELPER_DIR=$dir: no hint"
	fi
	with_helpers uninstall
	[ -z "$(find "$other" ! -type d)" ] || fail "HELPER_DIR=$dir: uninstall leaves something"
done
echo "ok"
