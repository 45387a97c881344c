"""Programs that keep accounts, killed again and again: the totals hold, what was answered is there.

test_programs.py library|client|mount: ledger.c works on an image, on a mounted volume through the
library, or by plain system calls in `stetfs run`. In turn the program and (client, mount) the daemon are
killed. KILLS: how often, 50 if not set. SEED: of the moments. STETFS, LEDGER: the programs.
"""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STETFS, LEDGER = os.environ["STETFS"], os.environ["LEDGER"]
KILLS = int(os.environ.get("KILLS") or 50)
SEED = int(os.environ.get("SEED") or time.time_ns() % 10**9)
SKIP = 77


def run(*words, code=0):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                          check=False, text=True)
    if code is not None and done.returncode != code:
        sys.exit(f"SEED={SEED} {' '.join(words)}: {done.returncode}, not {code}: {done.stdout}")
    return done.stdout.strip()


class Library:
    """Killed while it has the image open itself."""
    threads = "4"

    def __init__(self, folder, rng):
        self.rng = rng
        self.image = os.path.join(folder, "volume")
        self.log = os.path.join(folder, "log")
        run(STETFS, "mkfs", self.image, "--size", "256M")
        self.start()
        self.setup()

    def start(self):
        pass

    def stop(self):
        run(STETFS, "check", self.image)

    def setup(self):
        run(LEDGER, "make", self.image)

    def worker(self):
        return subprocess.Popen([LEDGER, "run", self.image, self.log, self.threads],
                                stderr=subprocess.DEVNULL)

    def verify(self):
        return int(run(LEDGER, "verify", self.image, self.log))

    def kill(self, worker):
        worker.kill()
        worker.wait()

    def turn(self):
        worker = self.worker()
        time.sleep(0.03 + 0.12 * self.rng.random())
        if worker.poll() is not None:
            sys.exit(f"SEED={SEED}: the worker ended by itself: {worker.returncode}")
        self.kill(worker)
        return self.verify()


class Client(Library):
    """The daemon has the image; the program is its client. In turn one of them is killed."""

    def __init__(self, folder, rng):
        self.dir = os.path.join(folder, "mnt")
        self.kills = 0
        self.daemon = None
        os.mkdir(self.dir)
        super().__init__(folder, rng)

    def start(self):
        self.daemon = subprocess.Popen([STETFS, "mount", "-f", self.image, self.dir],
                                       stderr=subprocess.DEVNULL)
        for _ in range(2000):
            if os.path.ismount(self.dir):
                return
            time.sleep(0.005)
        sys.exit("the volume was not mounted")

    def end_daemon(self):
        self.daemon.kill()
        self.daemon.wait()
        subprocess.run(["umount", "-l", self.dir], stderr=subprocess.DEVNULL, check=False)

    def stop(self):
        run(STETFS, "umount", self.dir)
        self.daemon.wait()
        super().stop()

    def kill(self, worker):
        self.kills += 1
        if self.kills % 2:
            super().kill(worker)
            return
        self.end_daemon()
        worker.wait(timeout=60)  # it notices, and ends
        self.start()


class Mount(Client):
    """Plain system calls in `stetfs run`, a process for each transaction."""
    SCRIPT = ('i=$1; while :; do i=$((i + 1)); "$2" run "$3" -- "$4" step "$3" $i 2> "$5.err" && echo $i >> "$5" '
              '|| { echo failed >> "$5.failed"; exit 1; }; done')

    def setup(self):
        run(STETFS, "run", self.dir, "--", LEDGER, "step", self.dir, "0")

    def worker(self):
        return subprocess.Popen(["sh", "-c", self.SCRIPT, "sh", str(self.rng.randrange(1 << 40)), STETFS,
                                 self.dir, LEDGER, self.log], start_new_session=True,
                                stderr=subprocess.DEVNULL)

    def verify(self):
        return int(run(LEDGER, "look", self.dir, self.log))

    def kill(self, worker):
        self.kills += 1
        if self.kills % 2 == 0:
            self.end_daemon()
        try:
            os.killpg(worker.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        worker.wait()
        if self.kills % 2 == 0:
            self.start()


def main():
    kind = {"library": Library, "client": Client, "mount": Mount}[sys.argv[1]]
    if kind is not Library and (os.geteuid() != 0 or not os.path.exists("/dev/fuse")):
        print("needs root and /dev/fuse")
        sys.exit(SKIP)
    folder = tempfile.mkdtemp(prefix="stet-programs-")
    os.chmod(folder, 0o755)
    target = kind(folder, random.Random(SEED))
    answered = 0
    try:
        for _ in range(KILLS):
            answered = target.turn()
        target.stop()
        if answered < KILLS:
            sys.exit(f"SEED={SEED}: {answered} answered transactions for {KILLS} kills: too few")
        print(f"SEED={SEED} {sys.argv[1]}: {KILLS} kills, {answered} answered transactions, all there")
    finally:
        if getattr(target, "daemon", None):
            target.end_daemon()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
