"""What an ordinary user could do to others through the control socket and the mount."""
import mmap
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time

from mountlib import STETFS, as_user, check, equal, main, read, wait_gone, write

RUNTIME = "/run/stetfs"
HEAD = struct.Struct("=IIiIQQII")
VERSION = 4
(BEGIN, COMMIT, ABORT, CHANGES, TXNS, SYNC, STATFS, STATS, CLEAN, SHUTDOWN, ITEM, END, MORE, PATHS,
 REVERT, FREEZE, JOIN, QUIT) = range(1, 19)
DETACHED = 1
EPERM, ENOENT, EMFILE, EINVAL = 1, 2, 24, 22
USER = 1000


def socket_of(mount):
    for name in os.listdir(RUNTIME):
        if name.endswith(".mount"):
            text = read(os.path.join(RUNTIME, name)).decode(errors="replace")
            if f"dir {mount.dir}\n" in text:
                return text.split("\nsocket ")[1].split("\n")[0]
    raise FileNotFoundError("no record")


class Client:
    """The protocol, by hand."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.connect(path)
        self.sock.settimeout(20)

    def send(self, kind, number=0, value=0, flags=0, version=VERSION):
        self.sock.send(HEAD.pack(version, kind, 0, flags, number, value, 0, 0) + b"\0\0")

    def receive(self):
        packet = self.sock.recv(1 << 17)
        return HEAD.unpack(packet[:HEAD.size]) if packet else None

    def ask(self, kind, **fields):
        """The result, and the last answer."""
        self.send(kind, **fields)
        while True:
            answer = self.receive()
            if not answer or answer[1] == END:
                return (answer[2], answer) if answer else (None, None)

    def close(self):
        self.sock.close()


class Beside(threading.Thread):
    """Something that another user does meanwhile; join() raises what went wrong."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.failure = None
        self.start()

    def run(self):
        try:
            as_user(self.function, USER)
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def join(self, timeout=None):
        super().join(timeout)
        if self.failure:
            raise self.failure


def test_nobody_holds_up_the_end(mount):
    """A client that asks and asks and never reads."""
    path = socket_of(mount)
    client = Client(path)
    client.sock.setblocking(False)
    try:
        for _ in range(100000):
            client.send(STATS)
    except BlockingIOError:
        pass
    equal(Client(path).ask(SYNC)[0], 0)
    begun = time.monotonic()
    mount.umount()
    check(time.monotonic() - begun < 30, "the end waited for a client")
    client.close()


def test_nonsense(mount):
    """Packets of all kinds; the daemon answers, or closes the connection, and lives."""
    rng = random.Random(5)
    path = socket_of(mount)
    daemon = mount.daemon()
    for _ in range(300):
        client = Client(path)
        client.sock.settimeout(0.2)
        packet = bytearray(HEAD.pack(VERSION, rng.randrange(20), 0, rng.getrandbits(32),
                                     rng.getrandbits(64), rng.getrandbits(64),
                                     rng.choice([0, 1, 2**31, 2**32 - 1]),
                                     rng.choice([0, 0, 7, 2**32 - 1])))
        packet += rng.randbytes(rng.choice([0, 1, 2, 3, 100]))
        if rng.randrange(3) == 0:
            packet = packet[:rng.randrange(len(packet))]
        if packet[4:5] in (bytes([SHUTDOWN]), bytes([CLEAN])):
            continue
        client.sock.send(packet)
        try:
            client.sock.recv(1 << 17)
        except (TimeoutError, ConnectionResetError):
            pass
        client.close()
    equal(mount.daemon(), daemon)
    write(mount.path("f"), b"lives")
    equal(read(mount.path("f")), b"lives")


def test_connections_of_one_user(mount):
    path = socket_of(mount)

    def open_many():
        clients = [Client(path) for _ in range(100)]
        answered = 0
        for client in clients:
            try:
                answered += client.ask(SYNC)[0] == 0
            except (BrokenPipeError, ConnectionResetError):
                pass
        check(1 <= answered <= 64, f"{answered} connections")
        write(mount.path("marker"), b"")
        while os.path.exists(mount.path("marker")):
            time.sleep(0.05)

    marker = mount.path("marker")
    os.chmod(mount.dir, 0o777)
    thread = Beside(open_many)
    while thread.is_alive() and not os.path.exists(marker):
        time.sleep(0.05)
    equal([Client(path).ask(SYNC)[0] for _ in range(80)], [0] * 80)
    if os.path.exists(marker):
        os.unlink(marker)
    thread.join()
    as_user(lambda: equal(Client(path).ask(SYNC)[0], 0), USER)


def test_refused_connections(mount):
    """Who has too many connections is told so, whether he asks before the daemon refuses or after."""
    path = socket_of(mount)

    def use():
        held = [Client(path) for _ in range(64)]
        equal([client.ask(SYNC)[0] for client in held], [0] * 64)
        for _ in range(50):
            client = Client(path)
            answer = client.receive()
            equal((answer[1], answer[2]), (END, -EMFILE), "answer")
            equal(client.receive(), None, "then it is closed")
            client.close()
            for words, code in ((["sync", mount.dir], 1), (["begin", mount.dir], 1),
                                (["run", mount.dir, "--", "true"], 125)):
                text = mount.run(*words, code=code)
                check("too many connections" in text and "\n" not in text, text)
        held.pop().close()
        deadline = time.monotonic() + 20
        while mount.run("sync", mount.dir, code=None):
            check(time.monotonic() < deadline, "one that was closed makes room")

    as_user(use, USER)


def test_transactions_of_one_user(mount):
    path = socket_of(mount)

    def begin_many():
        client = Client(path)
        results = [client.ask(BEGIN, flags=DETACHED)[0] for _ in range(300)]
        equal(results, [0] * 256 + [-EMFILE] * 44)

    as_user(begin_many, USER)
    mount.transaction("echo x > f")
    client = Client(path)
    for entry in mount.run("txns", mount.dir).splitlines()[1:]:
        client.ask(ABORT, number=int(entry.split()[0]))
    as_user(lambda: equal(Client(path).ask(BEGIN)[0], 0), USER)


def test_others_transactions(mount):
    """Neither ended nor looked into."""
    path = socket_of(mount)
    os.mkdir(mount.path("closed"), 0o700)
    write(mount.path("closed", "secret"), b"secret")
    secret = os.stat(mount.path("closed", "secret")).st_ino
    number, root = mount.begin()
    os.stat(os.path.join(root, "closed", "secret"))

    def look():
        client = Client(path)
        for kind in (COMMIT, ABORT, CHANGES, REVERT, FREEZE, JOIN):
            equal(client.ask(kind, number=int(number))[0], -EPERM, f"kind {kind}")
        equal(client.ask(MORE, number=int(number), value=secret)[0], -EPERM)
        equal(client.ask(QUIT, number=int(number), flags=1)[0], -ENOENT)
        equal(client.ask(CLEAN, value=1)[0], -EPERM)
        equal(client.ask(PATHS)[0], -EINVAL, "no paths")
        equal(client.ask(SHUTDOWN)[0], -EPERM)
        result, answer = client.ask(BEGIN)
        equal(result, 0)
        mine = answer[4]
        for ino in (secret, 2**64 - 1, 2**64 - 2, 0):
            equal(client.ask(MORE, number=mine, value=ino)[0], -ENOENT, f"inode {ino}")
        own = mount.path(".stet", "txn", str(mine), "root")
        equal(os.listdir(own), ["closed"])
        ino = os.stat(os.path.join(own, "closed")).st_ino
        equal(client.ask(MORE, number=mine, value=ino)[0], 0)

    as_user(look, USER)
    mount.abort(number)


def test_created_by_a_commit_meanwhile(mount):
    """open(O_CREAT) of a name that a commit makes at the same moment asks for permission, as any
    open does."""
    folder = mount.path("open")
    os.mkdir(folder)
    os.chmod(folder, 0o1777)
    stop = mount.path("stop")

    def try_to_get():
        path = os.path.join(folder, "f")
        while not os.path.exists(stop):
            try:
                file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            except OSError:
                continue
            owner = os.fstat(file).st_uid
            os.close(file)
            equal(owner, USER, "a file of root was opened")
            try:
                os.unlink(path)
            except OSError:
                pass

    thread = Beside(try_to_get)
    until = time.monotonic() + 6
    while time.monotonic() < until:
        mount.transaction("rm -f open/f; umask 077; echo secret > open/f", code=None)
        try:
            os.unlink(os.path.join(folder, "f"))
        except FileNotFoundError:
            pass
    write(stop, b"")
    thread.join()


def test_told_to_end_during_a_commit(mount):
    """The commit needs pages that only the kernel has; it is done or not, and the daemon ends."""
    size = 8 << 20
    for turn in range(6):
        number, root = mount.begin()
        with open(os.path.join(root, f"f{turn}"), "w+b") as file:
            file.truncate(size)
            pages = mmap.mmap(file.fileno(), size)
            for at in range(0, size, 4096):
                pages[at] = turn + 1
            commit = subprocess.Popen([STETFS, "commit", mount.dir, number],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.004 * turn)
            pid = mount.daemon()
            os.kill(pid, signal.SIGTERM)
            commit.wait(30)
            wait_gone(pid, 30)
            pages.close()
        while mount.is_mounted():
            subprocess.run(["umount", "-l", mount.dir], check=False)
        mount.check()
        mount.mount()
        path = mount.path(f"f{turn}")
        if os.path.exists(path):
            equal(read(path)[::4096], bytes([turn + 1]) * (size // 4096))
        else:
            check(commit.returncode != 0, "answered, but not there")


if __name__ == "__main__":
    main(globals())
