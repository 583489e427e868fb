"""Tests of servers and ways that misbehave. $URL is the address of a real server."""

import http.server
import json
import os
import socket
import threading
import unittest
import urllib.error
import urllib.request
import uuid
from unittest import mock

import padlock_client
import safety
from padlock_client import Client, HeldError, LostError, RefusedError, UnavailableError

URL = os.environ["URL"]


class Way:
    """A proxy before the real server. answer(handler, path, text) may answer in its place."""

    def __init__(self, answer=None) -> None:
        way = self
        self.seen: list = []
        self.connections: list = []
        self.over = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def setup(self) -> None:
                way.connections.append(self.request)
                super().setup()

            def do_POST(self) -> None:
                path, text = self.path.split("/")[-1], self.rfile.read(int(self.headers["Content-Length"]))
                request = urllib.request.Request(URL + self.path, text, {"Content-Type": "application/json"})
                if answer is not None and answer(self, path, text):
                    return
                try:
                    with urllib.request.urlopen(request) as reply:
                        status, text = reply.status, reply.read()
                except urllib.error.HTTPError as error:
                    with error:
                        status, text = error.code, error.read()
                way.seen.append((path, status))
                try:
                    self.reply(status, text)
                except OSError:
                    pass  # the way was closed meanwhile

            def reply(self, status: int, text: bytes, **headers: str) -> None:
                self.send_response(status)
                for key, value in {**headers, "Content-Length": str(len(text))}.items():
                    self.send_header(key.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(text)

            def drip(self, begin: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> None:
                """Send an answer that never ends, a byte at a time."""
                try:
                    self.wfile.write(begin)
                    while not way.over.wait(0.02):
                        self.wfile.write(b" ")
                        self.wfile.flush()
                except OSError:
                    pass

            def log_message(self, *args) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class FaultTest(unittest.TestCase):
    def setUp(self) -> None:
        self.name = "python " + uuid.uuid4().hex
        self.over = threading.Event()

    def way(self, answer=None) -> Way:
        way = Way(answer)
        self.addCleanup(way.close)
        return way

    def test_loss_while_a_renewal_hangs(self) -> None:
        def answer(handler, path, text) -> bool:
            if path == "extend":
                handler.drip()
            return path == "extend"

        with self.assertRaises(LostError):
            with Client(self.way(answer).url).lock(self.name, ttl=1.5, wait=60) as lock:
                self.assertTrue(lock.lost.wait(60))

    def test_loss_needs_no_thread(self) -> None:
        with self.assertRaises(LostError):
            with Client(URL).lock(self.name) as lock:
                lock._until = 0.0  # as after a pause of the process, before any thread runs
                self.assertEqual(0.0, lock.remaining())
                self.assertTrue(lock.lost.wait(60))
                lock._until = padlock_client._now() + 60  # an answer that comes late
                lock.check()

    def test_answers_of_others(self) -> None:
        foreign = json.dumps({"token": "another-0123456789", "fence": 1, "valid_ms": 30000})
        big = json.dumps({"token": "MINE", "fence": 1, "valid_ms": 30000, "more": "x" * (2 << 20)})
        endless = json.dumps({"token": "MINE", "fence": 1, "valid_ms": "soon"})
        for status, text, kind in (
            (200, "<html>log in</html>", UnavailableError), (200, "[]", UnavailableError), (200, foreign, UnavailableError), (200, big, UnavailableError), (200, endless, UnavailableError),
            (202, "{}", UnavailableError), (202, '{"retry_ms":null}', UnavailableError), (502, "<html>bad gateway</html>", UnavailableError), (500, "{}", UnavailableError), (307, "", RefusedError), (302, "", RefusedError),
        ):
            target = self.way()

            def answer(handler, path, sent, status=status, text=text, target=target) -> bool:
                mine = json.loads(sent)["token"]
                handler.reply(status, text.replace("MINE", mine).encode(), Location=target.url + "/v1/acquire")
                return True

            with self.subTest(status=status, text=text[:20]), mock.patch.object(padlock_client, "KEEP_TRYING", 0.0):
                with self.assertRaises(kind):
                    with Client(self.way(answer).url, token="secret").lock(self.name):
                        self.fail("no server of padlock said that")
                self.assertEqual([], target.seen)

    def test_slow_head(self) -> None:
        def answer(handler, path, text) -> bool:
            handler.drip(b"HTTP/1.1 200 OK\r\nX: ")
            return True

        client, answers = Client(self.way(answer).url), []
        asking = threading.Thread(target=lambda: answers.append(client.post("acquire", {}, 0.5)), daemon=True)
        asking.start()
        asking.join(10)
        self.assertEqual([0], [status for status, _ in answers], "the limit is one for each byte")

    def test_no_proxy(self) -> None:
        proxy = self.way()
        with mock.patch.dict(os.environ, {"http_proxy": proxy.url, "no_proxy": ""}):
            with Client(URL).lock(self.name):
                pass
        self.assertEqual([], proxy.connections, "the proxy could read the token")

    def test_addresses(self) -> None:
        for url in ("localhost:7925", "ftp://a", "http://", "http://u:secret@a", "http://a:b", []):
            with self.subTest(url=url), self.assertRaises(ValueError) as caught:
                Client(url)
            self.assertNotIn("secret", str(caught.exception))

    def until(self, ok, what: str) -> None:
        for _ in range(600):
            if ok():
                return
            threading.Event().wait(0.1)
        self.fail(f"still not: {what}")

    def silent_then(self, second):
        """A way that carries no acquire out: the first gets no answer, the others get second's."""
        tokens, seen = [], []

        def answer(handler, path, text) -> bool:
            token = json.loads(text)["token"]
            if path == "release":
                seen.append(token)
                return False
            tokens.append(token)
            if len(tokens) == 1:
                handler.close_connection = True
            elif second is not None:
                handler.reply(*second)
            else:
                handler.close_connection = True
            return True

        return self.way(answer), tokens, seen

    def test_given_up_twice(self) -> None:
        for second, kind in (((409, b'{"error":"held"}'), HeldError), ((410, b'{"error":"expired"}'), UnavailableError), ((403, b"{}"), RefusedError), ((202, b'{"retry_ms":1}'), HeldError), (None, UnavailableError)):
            for patience in (0.3, 1.0, 3.0, 10.0) if second is None else (60.0,):
                way, tokens, seen = self.silent_then(second)
                other, asked, also = self.silent_then(second)
                with self.subTest(second=second), mock.patch.object(padlock_client, "KEEP_TRYING", patience):
                    with self.assertRaises(kind):
                        with Client([way.url, other.url]).lock(self.name):
                            self.fail("nobody granted that")
                if asked:
                    break  # otherwise the first server has used up the patience, on a busy machine
            with self.subTest(second=second):
                self.until(lambda: seen == tokens[:1] * 2 and len(also) == 2, f"two releases at each: {seen} {also}")

    def test_refused_while_waiting(self) -> None:
        released = []

        def answer(handler, path, text) -> bool:
            if path == "acquire":
                answers.pop(0)(handler)
            else:
                released.append(path)
            return path == "acquire"

        answers = [lambda handler: handler.reply(202, b'{"retry_ms":1}'), lambda handler: handler.reply(403, b"{}")]
        with self.assertRaises(RefusedError):
            with Client(self.way(answer).url).lock(self.name, wait=60):
                self.fail("nobody granted that")
        self.assertIn("release", released)

    def test_grant_that_is_over(self) -> None:
        came = []

        def answer(handler, path, text) -> bool:
            came.append(path)
            if path == "acquire" and len(came) == 1:
                grant = {"token": json.loads(text)["token"], "fence": 1, "valid_ms": 0}
                handler.reply(200, json.dumps(grant).encode())
                return True
            return False

        with Client(self.way(answer).url).lock(self.name) as lock:
            self.assertGreater(lock.remaining(), 0)
            self.assertEqual(["acquire", "acquire"], came[:2])

    def test_release_in_time(self) -> None:
        for outcome, error in (("expired", None), ("taken", LostError)):
            answers = [503, 503, 200]

            def answer(handler, path, text, answers=answers, outcome=outcome) -> bool:
                if path != "release":
                    return False
                if len(answers) < 3:
                    end = padlock_client._now() + 1.8
                    while padlock_client._now() < end:
                        self.over.wait(end - padlock_client._now())
                handler.reply(answers.pop(0), json.dumps({"outcome": outcome}).encode())
                return True

            with self.subTest(outcome=outcome):
                lock = Client(self.way(answer).url).lock(self.name + outcome)
                try:
                    with lock:
                        lock._until = padlock_client._now() + 3  # the lease ends during the release
                except LostError as caught:
                    self.assertIs(error, LostError, caught)
                else:
                    self.assertIsNone(error)

    def test_next_server(self) -> None:
        first, second = self.way(), self.way()
        both = Client([first.url, second.url])
        got = threading.Event()

        def wait() -> None:
            with Client([first.url, second.url]).lock(self.name, wait=100):
                got.set()

        with both.lock(self.name, ttl=9) as lock:
            waiter = threading.Thread(target=wait)
            waiter.start()
            first.close()
            while ("extend", 200) not in second.seen:
                self.assertFalse(lock.lost.wait(0.01))
            self.assertFalse(got.is_set())
        self.assertTrue(got.wait(100))
        waiter.join()
        self.assertIn(("acquire", 200), second.seen)

    def test_lost_poll_leaves_no_place(self) -> None:
        tokens, released = [], []

        def answer(handler, path, text) -> bool:
            (tokens if path == "acquire" else released).append(json.loads(text)["token"])
            handler.close_connection = True  # without an answer
            return True

        second = self.way()
        with Client([self.way(answer).url, second.url]).lock(self.name):
            self.assertEqual([], released)
        self.assertEqual(("release", 200), second.seen[-1])
        self.assertEqual(1, len(tokens))
        self.until(lambda: released == tokens * 2, f"two releases at the silent server: {released}")

    def test_used_again(self) -> None:
        way = self.way()
        lock = Client(way.url).lock(self.name, ttl=9)
        fences = []
        for _ in range(3):
            with lock:
                fences.append(lock.fence)
                with self.assertRaises(HeldError):
                    with Client(URL).lock(self.name):
                        safety.two_hold(self, "a name that is held is granted")
        for before, fence in zip(fences, fences[1:]):
            safety.rises(self, fence, before)
        with lock:
            while way.seen.count(("extend", 200)) < 4:
                self.assertFalse(lock.lost.wait(0.01))


if __name__ == "__main__":
    unittest.main()
