#!/bin/sh
# Set-up: install the Debian/Ubuntu packages that the build and the tests need.
# Does nothing, quickly, when all of them are present. Prints one line per step.
#
#	ONLY_BUILD	not empty: only what it takes to build and use the program, no tests
set -eu

# To build and use it, and for all else.
BUILD_PACKAGES="gcc libc6-dev make meson ninja-build pkg-config libfuse3-dev fuse3 libisal-dev python3"
ALL_PACKAGES="$BUILD_PACKAGES clang clang-format clang-tidy liburing-dev libaio-dev libcmocka-dev
	libsqlite3-dev liblmdb-dev libdb-dev libjansson-dev uuid-dev attr acl e2fsprogs git tar rsync fio
	jq scdoc groff-base"

PACKAGES=$ALL_PACKAGES
[ -z "${ONLY_BUILD:-}" ] || PACKAGES=$BUILD_PACKAGES

say()
{
	echo "setup: $*"
}

die()
{
	echo "setup: $*" >&2
	exit 1
}

# The compiler runtime (sanitizers, fuzzer) of clang has no stable package name: look for it.
have_clang_runtime()
{
	[ -z "${ONLY_BUILD:-}" ] || return 0
	for file in /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.asan-*.a \
		/usr/lib/clang/*/lib/linux/libclang_rt.asan-*.a; do
		[ -e "$file" ] && return 0
	done
	return 1
}

missing_packages()
{
	# One query for all; a package that was never seen is absent from the answer.
	installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' $PACKAGES 2>/dev/null |
		awk '$2 == "installed" { printf " %s ", $1 }' || true)
	for name in $PACKAGES; do
		case "$installed" in
		*" $name "*) ;;
		*) printf ' %s' "$name" ;;
		esac
	done
}

# The runtime package that goes with the default clang, once the package lists are fresh.
clang_runtime_package()
{
	version=$(apt-cache depends clang 2>/dev/null |
		sed -n 's/.*Depends: clang-\([0-9][0-9]*\)$/\1/p' | head -n 1)
	for name in "libclang-rt-$version-dev" libclang-rt-dev "libclang-common-$version-dev"; do
		if apt-cache show "$name" >/dev/null 2>&1; then
			echo "$name"
			return 0
		fi
	done
}

command -v dpkg-query >/dev/null 2>&1 || {
	for tool in gcc meson ninja pkg-config python3; do
		command -v "$tool" >/dev/null 2>&1 ||
			die "not Debian or Ubuntu, and $tool is missing; needed: $PACKAGES"
	done
	exit 0
}

missing=$(missing_packages)
runtime=present
have_clang_runtime || runtime=missing
[ -n "$missing" ] || [ "$runtime" = missing ] || exit 0

if [ "$(id -u)" = 0 ]; then
	as_root="env"
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
	as_root="sudo -n env"
else
	[ "$runtime" = present ] || missing="$missing libclang-rt-dev"
	die "missing packages (neither root nor passwordless sudo):$missing"
fi

say "updating package lists"
$as_root apt-get -qq update >/dev/null || say "package lists not updated, going on"
[ "$runtime" = present ] || missing="$missing $(clang_runtime_package)"
say "installing:$missing"
$as_root DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends $missing \
	>/dev/null || die "installing failed:$missing"
say "done"
