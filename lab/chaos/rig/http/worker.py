"""A worker of the soak that takes its locks over HTTP: with the client for Python, or with that for
shells, which it runs for each lock. Or it runs "padlock run" for each lock.

The engine of the soak starts it; see lab/soak/wire.go for the messages. The configuration has
the kind of the client, the directory of the client and the URLs of the servers or of the store.
"""

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time

ORDER = json.loads(os.environ["PADLOCK_SOAK_WORKER"])
LOAD = ORDER["Load"]
KIND, CLIENT, *URLS = ORDER["Config"].split()
SECOND = 1_000_000_000
SLOTS = 2  # as in lab/soak/slots.go
TICK, STALL = 0.02, 35_000_000  # a worker that did not run for longer says so
OUTER = 9 * SECOND  # a lock of padlock.sh is for 10 s, and the script does not say until when


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Monitor:
    """A connection to the engine."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(ORDER["Socket"])
        self.answers = self.socket.makefile()

    def send(self, **call) -> None:
        self.socket.sendall(json.dumps(call).encode() + b"\n")

    def ask(self, **call) -> dict:
        self.send(**call)
        answer = self.answers.readline()
        if not answer:
            os._exit(3)  # the engine is gone
        return json.loads(answer)

    def log(self, op: str, at: int = 0, **event) -> None:
        event.update(op=op, w=ORDER["Worker"], life=ORDER["Life"], at=at or now())
        self.send(Do="log", Event=event)


def watch() -> None:
    """Tell the engine when this process did not run."""
    monitor, last = Monitor(), now()
    while True:
        time.sleep(TICK)
        at = now()
        if at - last > STALL:
            monitor.log("stalled", at, call=last)
        last = at


class Refusal(Exception):
    """There is no lock: "held", or "uncertain" if a request may have the lock."""


class PythonHold:
    """A lock of the client for Python."""

    def __init__(self, client, name: str, ttl: int, wait: int, shared: bool, slots: int) -> None:
        self.client = client
        self.lock = client.lock(name, ttl=ttl / SECOND, wait=wait / SECOND, shared=shared, slots=slots)
        try:
            self.lock.__enter__()
        except padlock_client.HeldError:
            raise Refusal("held")
        except padlock_client.UnavailableError:
            raise Refusal("uncertain")
        self.fence, self.slot, self.ttl = self.lock.fence, self.lock.slot, ttl

    def until(self) -> int:
        at = now()
        left = self.lock.remaining()
        return at + int(left * SECOND) if left > 0 else 0

    def work(self, seconds: float) -> bool:
        """Return whether the lock is lost."""
        return self.lock.lost.wait(seconds) or self.lock.remaining() <= 0

    def release(self) -> str:
        self.client.confirmed = False
        try:
            self.lock.__exit__(None, None, None)
        except padlock_client.LostError:
            return "lost"
        return "" if self.client.confirmed else "uncertain"


class ShellHold:
    """A lock of padlock.sh. The command under the lock prints its fence, and ends with its input."""

    COMMAND = ["sh", "-c", 'echo "$PADLOCK_FENCE"; read -r line']

    def __init__(self, _, name: str, ttl: int, wait: int, shared: bool, slots: int) -> None:
        options = (["-s"] if shared else []) + (["-n", str(slots)] if slots else [])
        self.asked, self.ttl, self.slot = now(), 10 * SECOND, None
        self.script = subprocess.Popen(
            ["sh", CLIENT + "/padlock.sh", "-t", "10", "-w", str(wait // SECOND), *options, name, *self.COMMAND],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PADLOCK_URL": " ".join(URLS)},
        )
        line = self.script.stdout.readline().split()
        if not line:
            status = self.end()
            if status not in (69, 75, 79):
                raise RuntimeError(f"padlock.sh ended with {status}")
            raise Refusal("held" if status == 75 else "uncertain")
        self.fence = int(line[0])
        self.over = False

    def end(self) -> int:
        self.script.stdin.close()
        self.script.stdout.close()
        return self.script.wait()

    def until(self) -> int:
        end = self.asked + OUTER  # counted from before the wait, because the script does not tell more
        return 0 if self.work(0) or end <= now() else end

    def work(self, seconds: float) -> bool:
        """Return whether the lock is lost: the script has ended the command."""
        self.over = self.over or bool(select.select([self.script.stdout], [], [], seconds)[0])
        return self.over

    def release(self) -> str:
        killed = random.random() < 0.01
        if killed:  # the lock ends with its lease
            self.script.send_signal(signal.SIGKILL)
        begun = now()
        status = self.end()
        if killed or status == 0 and now() - begun > 0.9 * SECOND:
            return "uncertain"  # the script goes on after a second if it gets no answer
        return "" if status == 0 else "lost"


class Worker:
    def __init__(self) -> None:
        self.monitor, self.count = Monitor(), 0
        self.dice = random.Random(f"{ORDER['Seed']} {ORDER['Worker']} {ORDER['Life']}")
        self.first = ORDER["Worker"] << 52 | ORDER["Life"] << 40
        letter = "abcdefghijklmnopqrstuvwxyz"[ORDER["Life"] % 26]
        self.own = f"{LOAD['Prefix']}own:{chr(ord('a') + ORDER['Worker'])}:a:{letter}"
        if KIND in ("shell", "run"):
            self.client, self.hold = None, ShellHold
        else:
            self.client, self.hold = Client(URLS), PythonHold

    def percent(self, n: int) -> bool:
        return self.dice.randrange(100) < n

    def between(self, low: int, high: int) -> int:
        return self.dice.randint(low, high)

    def name(self) -> str:
        if self.percent(LOAD["ToHot"]):
            return f"{LOAD['Prefix']}hot:{self.dice.randrange(LOAD['Hot'])}:{(now() - ORDER['Base']) // LOAD['Epoch']}"
        return f"{LOAD['Prefix']}warm:{self.dice.randrange(LOAD['Warm'])}"

    def turn(self) -> None:
        name, shared, slots = self.name(), self.percent(LOAD["Shared"]), 0
        wait = 0 if self.percent(4 * LOAD["Try"]) else LOAD["Wait"]
        own = self.percent(5 * LOAD["Own"])
        if own:
            name, shared = self.own, False
        elif self.client and self.percent(LOAD["Slots"]):
            name, shared, slots = LOAD["Prefix"] + "slots", False, SLOTS
        done = self.take(name, wait, shared, slots)
        if own and done == "":
            self.take(name, 0, False, 0, again=True)

    def take(self, name: str, wait: int, shared: bool, slots: int, again: bool = False) -> str:
        """Take a lock, work and release it. Return "" if the release was confirmed."""
        log, begun = self.monitor.log, now()
        log("asked", begun, call=begun, name=name, slots=slots)
        ttl = self.between(LOAD["MinTTL"], min(LOAD["MaxTTL"], 3 * LOAD["MinTTL"]))
        uses = {"waited": wait > 0, "slots": slots, "with": "Slots" if slots else "Shared" if shared else "Acquire", "shared": shared}
        try:
            hold = self.hold(self.client, name, ttl, wait, shared, slots)
        except Refusal as why:
            log("refused", call=begun, name=name, ttl=10 * SECOND, err=str(why), **uses)
            if again and str(why) == "held":
                log("broken", call=begun, name=name, err="I8 released, and held all the same")
            return str(why)
        self.count += 1
        about = {"name": f"{name}\x1fslot:{hold.slot}" if slots else name, "hold": self.first | self.count}  # fast.SlotName
        until, at = hold.until(), now()
        log("acquired", at, call=begun, fence=hold.fence, ttl=hold.ttl, until=until, **about, **uses)
        lost = self.work(hold, about, shared)
        if lost:
            log("lost", err="lost", **about)
        log("begun", err="released", **about)
        call, until = now(), hold.until()
        err = hold.release()
        log("released", call=call, until=until, err=err, **about)
        return err

    def work(self, hold, about: dict, shared: bool) -> bool:
        """Change the data that the lock protects. Return whether the lock is lost."""
        fence = 0 if shared else hold.fence
        value = self.monitor.ask(Do="read", Name=about["name"], Fence=fence)["Value"]
        if hold.work(self.between(LOAD["MinHold"], LOAD["MaxHold"]) / SECOND):
            return True
        until = hold.until()
        if until and not shared:
            self.monitor.ask(Do="write", Write={
                "Name": about["name"], "Fence": fence, "Value": value, "Until": until, "Worker": ORDER["Worker"], "Hold": about["hold"],
            })
        return False

    def run(self) -> None:
        self.monitor.log("started")
        while not self.monitor.ask(Do="over")["OK"]:
            self.turn()
            if KIND == "shell":
                time.sleep(self.dice.random() / 2)  # its processes cost more than all else


class RunWorker(Worker):
    """Its jobs run under "padlock run"."""

    def take(self, name: str, wait: int, shared: bool, slots: int, again: bool = False) -> str:
        log, begun = self.monitor.log, now()
        ttl, seconds = self.between(LOAD["MinTTL"], LOAD["MaxTTL"]), self.between(LOAD["MinHold"], LOAD["MaxHold"]) / SECOND
        if self.percent(4):
            seconds = 1.5 * ttl / SECOND
        self.count += 1
        uses = {"with": "Shared" if shared else "Acquire", "shared": shared, "call": begun, "name": name}
        hold = self.first | self.count
        log("asked", begun, call=begun, name=name)
        front = subprocess.Popen(
            [CLIENT + "/padlock", "run", "-q", "--ttl", str(ttl / SECOND), "-w", str(wait / SECOND), *(["-s"] if shared else []), name, "--",
             f"{CLIENT}/job-{ORDER['Worker']}", json.dumps({**uses, "hold": hold, "ttl": ttl}), str(seconds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PADLOCK_STORE": URLS[0]},
        )
        timers = self.harm(front, ttl)
        lines = front.stdout.read().split()  # from the shell in which the job begins, from the job, and at its end
        status = front.wait()
        for timer in timers:
            timer.cancel()
        front.stdin.close()
        front.stdout.close()
        if status not in (0, 69, 75, 79, -signal.SIGKILL):
            raise RuntimeError(f"padlock run ended with {status}")
        fence, lines = lines[:1], lines[1:]
        if not lines:
            why = "held" if status == 75 else "uncertain"
            log("refused", ttl=ttl, err=why, waited=wait > 0 and not timers, **uses)  # a padlock that is stopped may wait for longer
            if again and why == "held":
                log("broken", call=begun, name=name, err="I8 released, and held all the same")
            return why
        if len(lines) == 1:  # the job was ended before it could say more
            at = int(float(lines[0]) * SECOND) + SECOND // 100  # the kernel rounds
            log("acquired", at, ttl=ttl, fence=int(fence[0]), until=at + 1, hold=hold, **uses)
        ended = int(lines[2]) if len(lines) == 3 else now()
        prompt = status == 0 and now() - ended < 0.9 * SECOND  # padlock ends with 0 after some seconds without an answer, too
        err = "" if prompt else "lost" if status == 79 else "uncertain"
        log("released", call=ended, name=name, hold=hold, err=err)  # the release began then
        return err

    def harm(self, front, ttl: int) -> list:
        """Perhaps kill or stop the padlock process that renews the lock, above all before its job begins."""
        slow = not select.select([front.stdout], [], [], 0.4)[0]
        if not self.percent(60 if slow else 10):
            return []
        first, last = self.dice.random() * ttl / SECOND, (1 + 3 * self.dice.random()) * ttl / SECOND
        timers = [threading.Timer(first, front.kill)]
        if self.percent(60):
            timers = [threading.Timer(first, front.send_signal, [signal.SIGSTOP]), threading.Timer(first + last, front.send_signal, [signal.SIGCONT])]
        for timer in timers:
            timer.start()
        return timers


def job(about: str, seconds: str) -> None:
    """Be the job under the lock: say again and again that it runs, so nothing that it says is too late."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # only KILL ends it
    monitor, event, fence, at = Monitor(), json.loads(about), int(os.environ["PADLOCK_FENCE"]), now()
    end, who = at + int(float(seconds) * SECOND), {"name": event["name"], "hold": event["hold"]}
    print(at, flush=True)
    monitor.log("acquired", at, fence=fence, until=at + 1, **event)
    if event["shared"]:
        fence = 0
    value = monitor.ask(Do="read", Name=event["name"], Fence=fence)["Value"]
    while at < end and not select.select([sys.stdin], [], [], 0.005)[0]:
        at = now()
        monitor.log("verified", at, call=at, until=at, **who)
    if not event["shared"]:
        monitor.ask(Do="write", Write={"Name": event["name"], "Fence": fence, "Value": value, "Until": now() + SECOND // 10, "Worker": ORDER["Worker"], "Hold": event["hold"]})
    at = now()
    monitor.log("verified", at, call=at, until=at, **who)
    print(at, flush=True)


if KIND not in ("shell", "run"):
    sys.path.insert(0, CLIENT + "/src")
    import padlock_client

    class Client(padlock_client.Client):
        confirmed = False  # whether the last release got an answer

        def post(self, path, body, timeout, at=None):
            status, answer = super().post(path, body, timeout, at)
            if path == "release":
                self.confirmed = status == 200
            return status, answer

    if KIND == "python-late":  # a mutant for a test of the soak

        def begin(lock, wish, sent, begin=padlock_client.Lock._begin):
            begin(lock, wish, padlock_client._now())

        padlock_client.Lock._begin = begin

if len(sys.argv) > 1:
    job(*sys.argv[1:])
else:
    threading.Thread(target=watch, daemon=True).start()
    (RunWorker if KIND == "run" else Worker)().run()
