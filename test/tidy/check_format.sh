#!/bin/sh
# Check (or with --fix, restore) the formatting of all C files: check_format.sh ROOT [--fix]
# Releases of clang-format differ in details, so only the one the style was made with decides.
set -eu

WANTED=14
SKIP=77
cd "$1"
tool=clang-format
command -v "clang-format-$WANTED" >/dev/null 2>&1 && tool=clang-format-$WANTED
major=$("$tool" --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p')
if [ "$major" != "$WANTED" ]; then
	echo "clang-format $WANTED is needed, found: ${major:-none}"
	exit $SKIP
fi

list_files()
{
	for dir in include src sim test bench lab examples; do
		[ ! -d "$dir" ] || find "$dir" -name '*.[ch]' -type f -print0
	done
}

if [ "${2:-}" = --fix ]; then
	list_files | xargs -0 -r "$tool" -i
	exit 0
fi
complaints=$(list_files | xargs -0 -r "$tool" --dry-run -Werror 2>&1 || true)
[ -n "$complaints" ] || exit 0
echo "$complaints" | sed -n 's/^\([^ :]*:[0-9]*\):[0-9]*: error.*/\1/p' | uniq
echo "not formatted; \"make format\" does it"
exit 1
