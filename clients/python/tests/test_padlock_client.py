"""Tests against a real server, whose address is in $URL."""

import asyncio
import contextlib
import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import uuid

import padlock_client
import safety
from padlock_client import Client, HeldError, LostError, RefusedError, WaitTimeoutError

URL = os.environ["URL"]


def add(client: Client, name: str, path: str, times: int) -> None:
    """Read, add one and write, under the lock. Without it, additions would be lost."""
    for _ in range(times):
        with client.lock(name, wait=100):
            file = pathlib.Path(path)
            file.write_text(str(int(file.read_text()) + 1))


class Lossy(Client):
    """A client that loses the first answer to each kind of request, after the server has sent it."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.seen: list = []

    def post(self, path, body, timeout, at=None):
        status, answer = super().post(path, body, timeout, at)
        self.seen.append((path, status, answer))
        return (0, {}) if [p for p, _, _ in self.seen].count(path) == 1 else (status, answer)


class Counting(Client):
    """A client that counts its renewals."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.renewed = threading.Semaphore(0)

    def post(self, path, body, timeout, at=None):
        status, answer = super().post(path, body, timeout, at)
        if path == "extend" and status == 200:
            self.renewed.release()
        return status, answer


class LockTest(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client(URL)
        self.name = "python " + uuid.uuid4().hex + " \u00e9/../%2F"

    def take_away(self, lock) -> None:
        """End the hold, as an operator would with a break."""
        self.client.post("release", lock._hold, 5)

    def test_one_at_a_time(self) -> None:
        """The workers were forked after their client was made and used."""
        self.client.status(self.name)
        fork = multiprocessing.get_context("fork")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "n")
            path.write_text("0")
            workers = [fork.Process(target=add, args=(self.client, self.name, str(path), 5)) for _ in range(4)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            if path.read_text() != "20":
                safety.two_hold(self, f"20 were added one by one, and the sum is {path.read_text()}")

    def test_held(self) -> None:
        with self.client.lock(self.name, label="first") as first:
            with self.assertRaises(HeldError) as caught:
                with self.client.lock(self.name):
                    safety.two_hold(self, "a name that is held is granted")
            self.assertIn("first", caught.exception.answer["holders"][0]["label"])
            self.assertGreater(first.fence, 0)
        with self.client.lock(self.name) as second:
            safety.rises(self, second.fence, first.fence)

    def test_wait_ends(self) -> None:
        with self.client.lock(self.name):
            with self.assertRaises(WaitTimeoutError) as caught:
                with self.client.lock(self.name, wait=0.3):
                    safety.two_hold(self, "a name that is held is granted")
            self.assertIsInstance(caught.exception, HeldError)
            self.assertIsInstance(caught.exception, TimeoutError)
            self.assertIn("is held", str(caught.exception))
            with self.assertRaises(HeldError) as caught:
                self.client.lock(self.name).acquire()
            self.assertNotIsInstance(caught.exception, TimeoutError)

    def test_status_and_break(self) -> None:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            tokens = pathlib.Path(folder, "tokens")
            tokens.write_text("operator 0123456789abcdefghij acquire,read,break\nworker w0123456789abcdefghij acquire\n")
            tokens.chmod(0o600)
            arguments = ["serve", "--json", "--api", "--listen", "127.0.0.1:0", "--allow-break", "--token-file", str(tokens)]
            server = stack.enter_context(subprocess.Popen(["padlock", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
            stack.callback(server.kill)
            client = Client(json.loads(server.stdout.readline())["url"], token="0123456789abcdefghij")
            self.assertEqual([], client.status(self.name).get("holders", []))
            lock = client.lock(self.name, label="stuck").acquire()
            self.assertIn("stuck", client.status(self.name)["holders"][0]["label"])
            with self.assertRaises(HeldError):
                client.break_lock(self.name, lock.fence + 1)
            safety.rises(self, client.break_lock(self.name, lock.fence, reason="a test"), lock.fence)
            self.assertRaises(LostError, lock.release)
            worker = Client(client._urls[0].geturl(), token="w0123456789abcdefghij")
            self.assertRaises(RefusedError, worker.ask, self.name)
            with worker.lock(self.name) as lock:
                self.assertRaises(RefusedError, lock.asked)  # the token may not read
        with self.assertRaises(RefusedError):
            self.client.break_lock(self.name, 1)  # this server allows no break

    def test_asked(self) -> None:
        self.assertIsNone(self.client.ask(self.name, "nobody"))
        with self.client.lock(self.name) as lock:
            first = self.client.ask(self.name, "deploy")
            self.assertEqual([lock.fence, False], [first["asked"]["fence"], first["earlier"]])
            self.assertTrue(self.client.ask(self.name, "drain")["earlier"])
            self.assertRegex(lock.asked()["reason"], r"^deploy \S+/%d " % os.getpid())
            lock.extend()
        with self.client.lock(self.name) as lock:
            self.assertIsNone(lock.asked())
        with self.client.lock(self.name, slots=2) as lock:
            self.assertIsNone(self.client.ask(self.name))
            with self.client.lock(self.name, fence_above=lock.fence):
                self.assertIsNotNone(self.client.ask(self.name))  # the slot has another holder
                self.assertIsNone(lock.asked())

    def test_renewal(self) -> None:
        client = Counting(URL)
        with client.lock(self.name, ttl=9) as lock:
            for _ in range(4):
                self.assertTrue(client.renewed.acquire(timeout=60))
            lock.check()

    def test_lost(self) -> None:
        with self.assertRaises(LostError):
            with self.client.lock(self.name, ttl=1.5, wait=60) as lock:
                self.take_away(lock)
                self.assertTrue(lock.lost.wait(20))
                with self.assertRaises(LostError):
                    lock.check()

    def test_lost_at_the_end(self) -> None:
        with self.assertRaises(LostError):
            with self.client.lock(self.name) as lock:
                self.take_away(lock)

    def test_lost_answers(self) -> None:
        lossy = Lossy(URL)
        with lossy.lock(self.name) as lock:
            fences = [answer["fence"] for path, _, answer in lossy.seen if path == "acquire"]
            self.assertEqual([lock.fence, lock.fence], fences)
        outcomes = [answer["outcome"] for path, _, answer in lossy.seen if path == "release"]
        self.assertEqual(["released", "gone"], outcomes)

    def test_server_is_silent(self) -> None:
        client = Client("http://127.0.0.1:9")  # nobody listens there
        lock = client.lock(self.name, ttl=1)
        wish = padlock_client._Wish()
        wish.answer = {"fence": 1, "valid_ms": 10}
        lock._begin(wish, 0.0)
        self.assertTrue(lock.lost.wait(20))

    def test_slots_and_shared(self) -> None:
        with self.client.lock(self.name, slots=2) as first, self.client.lock(self.name, slots=2) as second:
            self.assertEqual({0, 1}, {first.slot, second.slot})
            with self.assertRaises(HeldError):
                with self.client.lock(self.name, slots=2):
                    self.fail("three holders")
        with self.client.lock(self.name, shared=True), self.client.lock(self.name, shared=True):
            pass

    def test_keep(self) -> None:
        with self.client.lock(self.name, keep=60):
            pass
        with self.assertRaises(HeldError):
            with self.client.lock(self.name):
                self.fail("the name is not kept")

    def test_ctrl_c_leaves_no_place(self) -> None:
        program = """if True:
            import asyncio, sys, padlock_client
            async def main():
                async with padlock_client.Client(sys.argv[1]).lock(sys.argv[2], wait=60):
                    pass
            asyncio.run(main())"""
        with self.client.lock(self.name):
            with subprocess.Popen([sys.executable, "-c", program, URL, self.name], stderr=subprocess.DEVNULL) as waiter:
                while not self.client.status(self.name)["waiters"]:
                    self.assertIsNone(waiter.poll())
                waiter.send_signal(signal.SIGINT)
            self.assertEqual(0, self.client.status(self.name)["waiters"])

    def test_refused(self) -> None:
        with self.assertRaises(RefusedError):
            with self.client.lock("", ttl=1):
                self.fail("a name without characters")

    def test_waiter_gets_it(self) -> None:
        got = threading.Event()

        def wait() -> None:
            with self.client.lock(self.name, wait=60):
                got.set()

        with self.client.lock(self.name):
            waiter = threading.Thread(target=wait)
            waiter.start()
            self.assertFalse(got.wait(0.3))
        self.assertTrue(got.wait(60))
        waiter.join()

    def test_async(self) -> None:
        async def work() -> str:
            async with self.client.lock(self.name, ttl=1.5, wait=60) as lock:
                self.take_away(lock)
                await asyncio.sleep(60)
                return "the task was not cancelled"

        with self.assertRaises(LostError):
            asyncio.run(work())

        async def quick() -> int:
            async with self.client.lock(self.name, wait=60) as lock:
                return lock.fence

        self.assertGreater(asyncio.run(quick()), 0)


if __name__ == "__main__":
    unittest.main()
