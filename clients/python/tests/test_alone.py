"""Tests that need no server."""

import ast
import asyncio
import contextlib
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

import padlock_client
import safety
from padlock_client import Client, HeldError, Lock, LostError, RefusedError, UnavailableError


class Scripted(Client):
    """A client whose acquires get the given answers in turn; an exception is raised instead."""

    def __init__(self, *answers) -> None:
        super().__init__("http://nowhere.invalid")
        self.answers = list(answers)
        self.seen: list = []

    def post(self, path, body, timeout, at=None):
        self.seen.append((path, body))
        if path != "acquire":
            return 200, {"outcome": "released", "valid_ms": body.get("ttl_ms", 0)}
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer[0], {"token": body["token"], "fence": 1, "valid_ms": body["ttl_ms"], **answer[1]}

    def tokens(self, of: str) -> set:
        return {body["token"] for path, body in self.seen if path == of}


class OldestPythonTest(unittest.TestCase):
    """The file has no syntax, and no annotation that is evaluated, from after Python 3.9."""

    def test_syntax(self) -> None:
        file = padlock_client.__file__
        with open(file, encoding="utf-8") as f:
            tree = ast.parse(f.read(), file, feature_version=(3, 9))
        imports = [i for i in tree.body if isinstance(i, ast.ImportFrom)]
        self.assertEqual(["annotations"], [a.name for a in imports[0].names])


class NoAnswerTest(unittest.TestCase):
    """The error says why there is no answer: a certificate that is not trusted, a port that is closed."""

    def test_certificate(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                            "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert, key)
            listener = context.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True)

            def refuse() -> None:
                with contextlib.suppress(OSError):
                    listener.accept()

            threading.Thread(target=refuse).start()
            status, answer = Client(f"https://127.0.0.1:{listener.getsockname()[1]}").post("status", {"name": "job"}, 5)
            listener.close()
        self.assertEqual(0, status)
        self.assertIn("certificate verify failed", answer["detail"])

    def test_closed_port(self) -> None:
        with self.assertRaisesRegex(UnavailableError, "does not answer: .*refused"):
            Client("http://127.0.0.1:9").status("job")


class AskedTest(unittest.TestCase):
    """A holder looks for a question at most once a second, and knows an earlier holder's from its own."""

    def test_asked_once_a_second(self) -> None:
        now, answers = [100.0], [(0, {}), (200, {"asked": {"fence": 0}}), (200, {"asked": {"fence": 1, "reason": "deploy"}})]

        class Looking(Scripted):
            def post(self, path, body, timeout, at=None):
                answer = super().post(path, body, timeout, at)
                return answers.pop(0) if path == "status" else answer

        with mock.patch.object(padlock_client, "_now", lambda: now[0]):
            client = Looking((200, {}), (200, {}))
            lock = client.lock("a", ttl=1000).acquire()
            for question in (None, None, {"fence": 1, "reason": "deploy"}):
                for _ in range(5):
                    self.assertEqual(question, lock.asked())
                now[0] += 1.0
            self.assertEqual(3, [path for path, _ in client.seen].count("status"))
            self.assertEqual([], answers)
            lock.release()
            lock.acquire()  # the question was for the hold before
            answers.append((200, {}))
            self.assertIsNone(lock.asked())
            lock.release()


class ClockTest(unittest.TestCase):
    """The clock counts the time for which the machine sleeps, if the system has such a one."""

    def asleep(self, platform: str, **clocks: int) -> float:
        """The time after an hour of sleep, during which only CLOCK_BOOTTIME and the like go on."""
        counts = {0: 3600.0, 1: 0.0}
        fake = types.SimpleNamespace(clock_gettime=lambda clock: counts[clock], monotonic=lambda: 0.0, **clocks)
        with mock.patch.object(padlock_client, "time", fake), mock.patch.object(sys, "platform", platform):
            lock = Client("http://nowhere.invalid").lock("a")
            lock._until = 30.0
            self.assertEqual(max(0.0, 30.0 - padlock_client._now()), lock.remaining())
            return padlock_client._now()

    def test_clock_counts_sleep(self) -> None:
        self.assertEqual(3600.0, self.asleep("linux", CLOCK_BOOTTIME=0, CLOCK_MONOTONIC_RAW=1))
        self.assertEqual(3600.0, self.asleep("darwin", CLOCK_MONOTONIC_RAW=0, CLOCK_UPTIME_RAW=1))
        self.assertEqual(0.0, self.asleep("freebsd14", CLOCK_MONOTONIC_RAW=1))


class InterruptedTest(unittest.TestCase):
    """An exception of a signal handler ends the wait, and leaves no place and no lock."""

    def test_while_waiting(self) -> None:
        for first in ((202, {"retry_ms": 1}), (429, {"retry_ms": 1}), None):
            client = Scripted(*([first] if first else []), KeyboardInterrupt())
            with self.subTest(first=first), self.assertRaises(KeyboardInterrupt):
                with client.lock("a", wait=60):
                    self.fail("nobody granted that")
            self.assertEqual(client.tokens("acquire"), client.tokens("release"), first)

    def test_after_the_grant(self) -> None:
        client, begin = Scripted((200, {"slot": 3})), Lock._begin

        def interrupted(lock, *args) -> None:
            begin(lock, *args)
            raise KeyboardInterrupt

        lock = client.lock("a", slots=4)
        with mock.patch.object(Lock, "_begin", interrupted), self.assertRaises(KeyboardInterrupt):
            with lock:
                self.fail("interrupted")
        self.assertEqual({3}, {body.get("slot") for path, body in client.seen if path == "release"})
        self.assertEqual(client.tokens("acquire"), client.tokens("release"))
        if not lock._stop.is_set():
            safety.broken(self, "it would be renewed until the process ends")
        self.assertEqual(0.0, lock.remaining())


    def test_while_releasing(self) -> None:
        client, changed = Scripted((200, {"slot": 3})), threading.Condition()
        post, releases = client.post, []

        def interrupted(path, body, timeout, at=None):
            if path == "release":
                with changed:
                    releases.append({key: body.get(key) for key in ("token", "slot")})
                    self.assertGreater(body["keep_ms"], 50_000)
                    changed.notify_all()
                    if len(releases) == 1:
                        raise KeyboardInterrupt
            return post(path, body, timeout, at)

        with mock.patch.object(client, "post", interrupted), self.assertRaises(KeyboardInterrupt):
            with client.lock("a", slots=4, keep=60):
                pass
        with changed:
            self.assertTrue(changed.wait_for(lambda: len(releases) > 1, 10), "the lock stays until its lease ends")
        self.assertEqual(releases[0], releases[1])


class OneHoldTest(unittest.TestCase):
    """A Lock has one hold, which one process has, and which is released once."""

    def test_second_acquire(self) -> None:
        client = Scripted((200, {}), (409, {}))
        lock = client.lock("a")
        with lock:
            for again in (lock.acquire, lock.__enter__, lambda: asyncio.run(lock.__aenter__())):
                self.assertRaises(RuntimeError, again)
            self.assertTrue(lock.locked())
            self.assertFalse(lock._stop.is_set(), "the first hold is renewed no more")
        self.assertRaises(HeldError, lock.acquire)  # after the release it may ask again
        self.assertRaises(LostError, lock.release)

    def test_second_acquire_while_the_first_waits(self) -> None:
        client, asked, over = Scripted(), threading.Event(), threading.Event()

        def post(path, body, timeout, at=None):
            asked.set()
            over.wait(60)
            return 409, {}

        with mock.patch.object(client, "post", post):
            lock = client.lock("a")
            first = threading.Thread(target=lambda: self.assertRaises(HeldError, lock.acquire))
            first.start()
            self.assertTrue(asked.wait(60))
            threading.Timer(5, over.set).start()  # for a second acquire that asks, too
            self.assertRaises(RuntimeError, lock.acquire)
            over.set()
            first.join()

    def test_acquired_after_a_loss(self) -> None:
        client = Scripted((200, {}), (200, {}))
        lock = client.lock("a").acquire()
        stop, lock._until = lock._stop, 0.0
        lock.acquire()
        lock._lose(stop)  # as the thread of the first hold does when it runs again
        lock.check()
        lock.release()

    def test_fork(self) -> None:
        client = Scripted((200, {}))
        with client.lock("a") as lock:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    lock.__exit__(SystemExit, SystemExit(), None)  # as sys.exit() does
                    for use in (lock.release, lock.check, lock.extend, lambda: lock.__exit__(None, None, None)):
                        self.assertRaises(LostError, use)
                    self.assertFalse(lock.locked())
                    self.assertEqual(["acquire"], [path for path, _ in client.seen])
                    status = 0
                finally:
                    os._exit(status)
            self.assertEqual(0, os.waitpid(child, 0)[1], "the child has used the lock of its parent")
            self.assertTrue(lock.locked())

    def test_released_inside(self) -> None:
        client = Scripted((200, {}), (200, {}))
        with client.lock("a") as lock:
            lock.release()
            self.assertFalse(lock.locked())
        lock.release()
        with self.assertRaises(LostError):
            with client.lock("a") as lock:
                lock._until = 0.0
                self.assertRaises(LostError, lock.release)
        self.assertRaises(LostError, lock.release)
        self.assertEqual(["acquire", "release"] * 2, [path for path, _ in client.seen])


class MethodsTest(unittest.TestCase):
    def test_without_with(self) -> None:
        client = Scripted((200, {}))
        lock = client.lock("a")
        for too_early in (lock.release, lock.extend):
            self.assertRaises(LostError, too_early)
        self.assertEqual([], client.seen)
        self.assertIs(lock, lock.acquire())
        self.assertTrue(lock.locked())
        lock._until -= 10
        self.assertGreater(lock.extend(), 25)
        lock.release()
        self.assertFalse(lock.locked())
        self.assertEqual(["acquire", "extend", "release"], [path for path, _ in client.seen])

    def test_not_extended(self) -> None:
        client = Scripted((200, {}))
        for status, error in ((503, UnavailableError), (0, UnavailableError), (403, RefusedError), (410, LostError)):
            client.answers = [(200, {})]
            with self.assertRaises(LostError) if error is LostError else contextlib.nullcontext():
                with client.lock("a") as lock, mock.patch.object(client, "post", return_value=(status, {})):
                    self.assertRaises(error, lock.extend)
                    self.assertEqual(error is not LostError, lock.locked())


class LabelTest(unittest.TestCase):
    def test_names_the_process(self) -> None:
        here = f"{socket.gethostname()}/{os.getpid()}"
        for label, want in (("", here), ("nightly", "nightly " + here), ("é" * 128, "é" * 128)):
            client = Scripted((200, {}))
            with client.lock("a", label=label):
                self.assertEqual(want, client.seen[0][1]["label"])


class PauseTest(unittest.TestCase):
    def test_too_many(self) -> None:
        client = Scripted(*[(429, {"retry_ms": 2000})] * 3, (200, {}))
        with mock.patch.object(time, "sleep") as sleep:
            with client.lock("a", wait=60):
                pauses = [call.args[0] for call in sleep.call_args_list]
        self.assertEqual(3, len(pauses))
        for pause in pauses:
            self.assertTrue(1.0 <= pause <= 2.0, pauses)


if __name__ == "__main__":
    unittest.main()
