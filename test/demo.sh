#!/bin/sh
# The main job, shown on a scratch volume: a real tree goes in as one transaction, a kill in the middle
# leaves nothing half done, and commands on a mount change all or nothing: an upgrade that fails half way, an agent
# whose changes are looked at first.
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

mkdir "$MNT"
cat > "$WORK/upgrade.sh" <<'END'
set -e
echo "version = 2" > app/version
rm app/plugins/old
cp "$1" app/plugins/new
sed -i "s/^port = .*/port = 8080/" app/app.conf
END
cat > "$WORK/agent.sh" <<'END'
sed -i "s/^port = .*/port = 8081/" app/app.conf
rm -r app/plugins
ln -sf /tmp/elsewhere app/version
END

# A command as a user types it, with his short names.
tell()
{
	printf '$ %s\n' "$*"
}

say "Mounted, any command runs as one transaction. A program is installed, by any means:"
show mount "$VOLUME" "$MNT"
mounted=yes
mkdir -p "$MNT/app/plugins"
echo "version = 1" > "$MNT/app/version"
echo old > "$MNT/app/plugins/old"
printf 'name = demo\nport = 80\n' > "$MNT/app/app.conf"
tell "find $MNT/app -type f"
find "$MNT/app" -type f | sort

say "Its upgrade fails half way, and nothing has happened:"
tell "cat upgrade.sh"
cat "$WORK/upgrade.sh"
tell "stetfs run $MNT -- sh upgrade.sh /no/such/plugin"
"$STETFS" run "$MNT" -- sh "$WORK/upgrade.sh" /no/such/plugin || echo "(exit code $?)"
tell "cat $MNT/app/version; ls $MNT/app/plugins"
cat "$MNT/app/version"
ls "$MNT/app/plugins"

say "It succeeds, and all of it is there at once:"
tell "stetfs run $MNT -- sh upgrade.sh plugin"
echo plugin > "$WORK/plugin"
"$STETFS" run "$MNT" -- sh "$WORK/upgrade.sh" "$WORK/plugin"
tell "cat $MNT/app/version; ls $MNT/app/plugins"
cat "$MNT/app/version"
ls "$MNT/app/plugins"

say "An agent that nobody quite trusts. What it has done is shown, and dropped:"
tell "stetfs run --confirm $MNT -- ./agent"
STETFS_PAGER="cat -" python3 test/answer.py "ist all: " d "ist all: " n -- \
	"$STETFS" run --confirm "$MNT" -- sh "$WORK/agent.sh" || echo "(exit code $?)"
tell "cat $MNT/app/version"
cat "$MNT/app/version"

say "The same, and the answer is yes:"
tell "stetfs run --confirm $MNT -- ./agent"
python3 test/answer.py "ist all: " y -- "$STETFS" run --confirm "$MNT" -- sh "$WORK/agent.sh"
tell "ls -l $MNT/app"
ls -l "$MNT/app"
show umount "$MNT"
mounted=no
show check "$VOLUME"
