"""Locks that hold across processes and machines, over HTTP ("padlock serve --api").

    from padlock_client import Client

    client = Client("http://127.0.0.1:7925")
    with client.lock("invoice:42", wait=60) as lock:
        save(invoice, fence=lock.fence)

It needs the standard library only. See docs/http-api.md of padlock for the rules.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import secrets
import ssl
import threading
import time
import urllib.error
import urllib.request
from types import TracebackType
from typing import Any, Callable, Optional, Type

__all__ = ["Client", "Lock", "PadlockError", "Held", "Lost", "Unavailable", "Refused"]

LONGEST_POLL = 25.0  # seconds; the server answers 202 after that
KEEP_TRYING = 10.0  # seconds beyond the wait for which a request without an answer is repeated


class PadlockError(Exception):
    """The base of all errors of this module. answer is that of the server, or empty."""

    def __init__(self, text: str, answer: Optional[dict[str, Any]] = None) -> None:
        super().__init__(text)
        self.answer = answer or {}


class Held(PadlockError):
    """Another client has the lock, now or at the end of the wait."""


class Lost(PadlockError):
    """The lock did not last until the end of the work: part of the work was not protected."""


class Unavailable(PadlockError):
    """The server or its store did not answer in time. The lock was given up."""


class Refused(PadlockError):
    """The server refused the request: it is wrong, or a right is missing."""


def _now() -> float:
    """The seconds of a clock that also counts while the machine is suspended, if there is one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Client:
    """A client of one server. It is safe for use by several threads."""

    def __init__(self, url: str, token: Optional[str] = None, context: Optional[ssl.SSLContext] = None) -> None:
        """token is one of the server's token file, and context is for TLS and client certificates."""
        self._url = url.rstrip("/")
        self._token = token
        self._context = context

    def lock(self, name: str, *, ttl: float = 30.0, wait: float = 0.0, shared: bool = False, slots: int = 0,
             label: str = "", keep: float = 0.0, fence_above: int = 0) -> Lock:
        """Return a lock for one "with" or "async with". Times are in seconds."""
        body: dict[str, Any] = {"name": name, "ttl_ms": round(ttl * 1000)}
        options = {"shared": shared, "slots": slots, "label": label, "keep_ms": round(keep * 1000), "fence_above": fence_above}
        body.update({key: value for key, value in options.items() if value})
        return Lock(self, body, ttl, wait)

    def post(self, path: str, body: dict[str, Any], timeout: float) -> tuple[int, dict[str, Any]]:
        """Send one request. Without an answer, the status is 0."""
        request = urllib.request.Request(f"{self._url}/v1/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        if self._token:
            request.add_header("Authorization", "Bearer " + self._token)
        try:
            with urllib.request.urlopen(request, timeout=timeout, context=self._context) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                try:
                    return error.code, json.load(error)
                except (OSError, ValueError, http.client.HTTPException):
                    return error.code if error.code < 500 else 0, {}
        except (OSError, ValueError, http.client.HTTPException):
            return 0, {}


class _Wish:
    """Whether the task of an acquire still wants the lock, and whether it has got it."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self.abandoned = False
        self.granted = False


def _in_thread(call: Callable[[], None], daemon: bool) -> asyncio.Future[None]:
    """Run call in a thread of its own: in a shared pool, a release could wait behind acquires."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: Optional[BaseException]) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        caught: Optional[BaseException] = None
        try:
            call()
        except BaseException as error:
            caught = error
        try:
            loop.call_soon_threadsafe(settle, caught)
        except RuntimeError:
            pass  # the loop is closed, and nobody waits any more

    threading.Thread(target=run, name="padlock request", daemon=daemon).start()
    return done


class Lock:
    """One hold on a name. It is renewed by a thread of its own until the end of "with".

    fence grows with each holder: send it with each write. lost is set when the lock is lost; long
    work calls check from time to time. At the end, "with" raises Lost if the lock did not last.
    "async with" cancels the task when the lock is lost, and raises Lost in place of CancelledError.
    """

    def __init__(self, client: Client, body: dict[str, Any], ttl: float, wait: float) -> None:
        self._client, self._body, self._ttl, self._wait = client, body, ttl, wait
        self._hold: dict[str, Any] = {}
        self._stop = threading.Event()
        self._renewal: Optional[threading.Thread] = None
        self._when_lost: Any = None
        self._cancelled = False
        self._until = 0.0
        self.fence = 0
        self.slot: Optional[int] = None
        self.lost = threading.Event()

    def remaining(self) -> float:
        """The seconds for which the lock is valid if it is not renewed; 0 if it is lost."""
        return 0.0 if self.lost.is_set() else max(0.0, self._until - _now())

    def check(self) -> None:
        """Raise Lost if the lock is lost. It sends no request."""
        if self.remaining() <= 0:
            raise Lost(f"the lock {self._body['name']!r} is lost")

    # The same token goes out again only after no answer, 202, 503 or 504.
    def _acquire(self, wish: Optional[_Wish] = None) -> None:
        wish = wish or _Wish()
        self._stop.clear()
        self.lost.clear()
        token, began, pause = secrets.token_hex(16), _now(), 0.1
        while True:
            sent = _now()
            poll = max(0.0, min(began + self._wait - sent, LONGEST_POLL))
            status, answer = self._client.post("acquire", {**self._body, "token": token, "wait_ms": round(poll * 1000)}, poll + 10)
            with wish.guard:
                if status == 200 and not wish.abandoned:
                    self._begin(token, sent, answer)
                    wish.granted = True
                    return
            if wish.abandoned:
                self._give_up(token, status, answer)
            if status == 410 and _now() < began + self._wait:
                token = secrets.token_hex(16)
            elif status in (202, 429) and _now() < began + self._wait:
                if status == 429:
                    time.sleep(pause)
            elif status in (0, 503, 504) and _now() < began + self._wait + KEEP_TRYING:
                time.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(2.0, pause * 2)
            else:
                self._give_up(token, status, answer)

    def _give_up(self, token: str, status: int, answer: dict[str, Any]) -> None:
        """Release a token that may have the lock or a place among the waiters, and raise."""
        name = self._body["name"]
        if status in (0, 200, 202, 503, 504):
            slot = {"slot": answer["slot"]} if "slot" in answer else {}
            self._client.post("release", {"name": name, "token": token, **slot}, 5)
        if status in (202, 409):
            raise Held(f"the lock {name!r} is held", answer)
        if status in (0, 429, 503, 504):
            raise Unavailable(f"the lock {name!r}: {answer.get('detail', 'the server does not answer')}", answer)
        raise Refused(f"the lock {name!r}: {answer.get('detail', status)}", answer)

    def _begin(self, token: str, sent: float, answer: dict[str, Any]) -> None:
        self._hold = {"name": self._body["name"], "token": token}
        self.fence, self.slot = answer.get("fence", 0), answer.get("slot")
        if self.slot is not None:
            self._hold["slot"] = self.slot
        self._until = sent + answer["valid_ms"] / 1000
        self._renewal = threading.Thread(target=self._renew, name="padlock " + repr(self._body["name"]), daemon=True)
        self._renewal.start()

    def _renew(self) -> None:
        """Extend the lease every third of it. Without an answer, try again sooner, until it is over."""
        again = self._ttl / 3
        while not self._stop.wait(max(0.0, min(again, self._until - _now()))):
            sent = _now()
            if sent >= self._until:
                break
            body = {**self._hold, "ttl_ms": self._body["ttl_ms"]}
            status, answer = self._client.post("extend", body, max(0.05, min(self._ttl / 6, self._until - sent)))
            if status == 200:
                self._until = max(self._until, sent + answer["valid_ms"] / 1000)
            elif status == 410:
                break
            again = self._ttl / (3 if status == 200 else 10)
        if not self._stop.is_set():
            self.lost.set()
            if self._when_lost is not None:
                self._when_lost()

    def _release(self) -> None:
        """Stop the renewal, release the lock, and raise Lost if it did not last until now."""
        self._stop.set()
        if self._renewal is not None:
            self._renewal.join()
        lasted, unanswered = self.remaining() > 0, False
        for pause in (0.1, 0.5, 0.0):
            status, answer = self._client.post("release", self._hold, 5)
            if status == 200:
                outcome = answer.get("outcome")
                # An earlier request whose answer was lost may have released it.
                lasted = lasted and (outcome == "released" or outcome == "gone" and unanswered)
                break
            unanswered = True
            time.sleep(pause)
        self._until = 0.0
        if not lasted:
            raise Lost(f"the lock {self._body['name']!r} was lost before the end of the work")

    def __enter__(self) -> Lock:
        self._acquire()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            self._release()
        except Lost as lost:
            if error is None:
                raise
            raise lost from error

    async def __aenter__(self) -> Lock:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        self._cancelled = False

        def cancel() -> None:
            if self._when_lost is not None and task is not None:  # otherwise the work has ended meanwhile
                self._cancelled = True
                task.cancel()

        self._when_lost = lambda: loop.call_soon_threadsafe(cancel)
        wish = _Wish()
        try:
            await asyncio.shield(_in_thread(lambda: self._acquire(wish), daemon=True))
        except asyncio.CancelledError:
            # The thread goes on until its request ends, and gives up a lock that it gets then.
            self._when_lost = None
            with wish.guard:
                wish.abandoned = True
            if wish.granted:
                _in_thread(self._drop, daemon=False)
            raise
        return self

    def _drop(self) -> None:
        try:
            self._release()
        except Lost:
            pass

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self._when_lost = None
        if self._cancelled and isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and hasattr(task, "uncancel"):
                task.uncancel()
        try:
            await asyncio.shield(_in_thread(self._release, daemon=False))
        except Lost as lost:
            raise lost from error
