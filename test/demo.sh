#!/bin/sh
# The main job, shown on a scratch volume: a real tree goes in as one transaction, a kill in the middle
# leaves nothing half done, and a command on a mount changes all or nothing.
#
#	BUILD	the build folder (default: build)
#	SOURCE	the tree that is copied (default: /usr/include)
set -eu

cd "$(dirname "$0")/.."
STETFS=$PWD/${BUILD:-build}/stetfs
SOURCE=${SOURCE:-/usr/include}
WORK=$(mktemp -d)
VOLUME=$WORK/demo.stet
MNT=$WORK/mnt
mounted=no

clean_up()
{
	[ "$mounted" = no ] || "$STETFS" umount "$MNT" || true
	rm -rf "$WORK"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say()
{
	printf '\n# %s\n' "$*"
}

show()
{
	printf '$ stetfs %s\n' "$*"
	"$STETFS" "$@"
}

say "A volume is one file."
show mkfs "$VOLUME" --size 512M

say "A real tree goes in as one transaction. The first try is killed in the middle:"
printf '$ stetfs cp -r %s %s:/   (killed)\n' "$SOURCE" "$VOLUME"
"$STETFS" cp -r "$SOURCE" "$VOLUME:/" &
pid=$!
sleep 0.15
kill -9 "$pid" 2>/dev/null || echo "(it was faster than the kill)"
wait "$pid" 2>/dev/null || true
show check "$VOLUME"
printf '$ stetfs ls %s:/   (all of it or nothing)\n' "$VOLUME"
"$STETFS" ls "$VOLUME:/"
if "$STETFS" ls "$VOLUME:/" | grep -q .; then
	"$STETFS" rm -r "$VOLUME:/$(basename "$SOURCE")"
fi

say "The second one is not:"
show cp -r "$SOURCE" "$VOLUME:/"
printf '$ stetfs find %s:/ -type f | wc -l\n' "$VOLUME"
"$STETFS" find "$VOLUME:/" -type f | wc -l

say "Out again, and compared:"
show cp -r "$VOLUME:/" "$WORK/back"
diff -r --no-dereference "$SOURCE" "$WORK/back/$(basename "$SOURCE")" && echo "the same"
show check "$VOLUME"

if [ "$(id -u)" != 0 ] || [ ! -c /dev/fuse ]; then
	say "Mounting needs root and /dev/fuse: the rest is left out."
	exit 0
fi

say "Mounted, any command runs as one transaction. This one fails half way:"
mkdir "$MNT"
show mount "$VOLUME" "$MNT"
mounted=yes
top=$(basename "$SOURCE")
printf '$ stetfs run %s -- sh -c "rm -rf %s; mkdir app; echo half > app/new; exit 1"\n' "$MNT" "$top"
"$STETFS" run "$MNT" -- sh -c "rm -rf $top; mkdir app; echo half > app/new; exit 1" ||
	echo "(exit code $?)"
printf '$ ls %s\n' "$MNT"
ls "$MNT"

say "This one succeeds, and all of it is there at once:"
printf '$ stetfs run %s -- sh -c "rm -rf %s; mkdir app; echo done > app/new"\n' "$MNT" "$top"
"$STETFS" run "$MNT" -- sh -c "rm -rf $top; mkdir app; echo done > app/new"
printf '$ ls %s; cat %s/app/new\n' "$MNT" "$MNT"
ls "$MNT"
cat "$MNT/app/new"
show umount "$MNT"
mounted=no
show check "$VOLUME"
