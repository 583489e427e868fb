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
import io
import json
import math
import os
import random
import secrets
import socket
import ssl
import sys
import threading
import time
import urllib.parse
from types import TracebackType
from typing import Any, Callable, Optional, Sequence, Type, Union

__all__ = ["Client", "Lock", "PadlockError", "HeldError", "WaitTimeoutError", "LostError", "UnavailableError", "RefusedError"]

LONGEST_POLL = 25.0  # seconds; the server answers 202 after that
SHORTER_POLL = 10.0  # with several servers, a silent one is found sooner
LOOK_EVERY = 1.0  # seconds; after a suspension of the machine, waits of threads are late
KEEP_TRYING = 10.0  # seconds beyond the wait for which a request without an answer is repeated
MAX_LABEL = 256  # bytes that every store keeps
MAX_REASON = MAX_LABEL - 17  # a question keeps a fence before its reason
ASKED_EVERY = 1.0  # seconds between two looks for a question
MAX_ANSWER = 1 << 20  # bytes; the largest answer has 100 holders, each with a label


class PadlockError(Exception):
    """The base of all errors of this module. answer is that of the server, or empty."""

    def __init__(self, text: str, answer: Optional[dict[str, Any]] = None) -> None:
        super().__init__(text)
        self.answer = answer or {}


class HeldError(PadlockError):
    """Another client has the lock."""


class WaitTimeoutError(HeldError, TimeoutError):
    """The wait ended, and another client still has the lock."""


class LostError(PadlockError):
    """The lock did not last until the end of the work: part of the work was not protected."""


class UnavailableError(PadlockError):
    """The server or its store did not answer in time. The lock was given up."""


class RefusedError(PadlockError):
    """The server refused the request: it is wrong, or a right is missing."""


def _now() -> float:
    """The seconds of a clock that also counts while the machine is suspended, if there is one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":  # where time.monotonic() stands still during sleep
        return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
    return time.monotonic()


class _Timed(io.RawIOBase):
    """The bytes of a reply until the request is over. The time limit of a socket is one for each byte."""

    def __init__(self, sock: socket.socket, raw: Any, end: float) -> None:
        self._sock, self._raw, self._end = sock, raw, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        left = self._end - _now()
        if left <= 0:
            raise TimeoutError("the reply is too slow")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _address(url: str) -> urllib.parse.SplitResult:
    parts = urllib.parse.urlsplit(url.rstrip("/"))
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.port == 0:
        raise ValueError("a URL begins with http:// or https://, and has a host but no user; use token")
    return parts


def _labelled(label: str, most: int = MAX_LABEL) -> str:
    """The label with this process: as host and pid, others see those of the server."""
    full = f"{label} {socket.gethostname()}/{os.getpid()}".strip()
    return full if len(full.encode(errors="replace")) <= most else label


class Client:
    """A client of one server, or of several servers of the same store. Threads can share it."""

    def __init__(self, url: Union[str, Sequence[str]], token: Optional[str] = None, context: Optional[ssl.SSLContext] = None) -> None:
        """token is one of the server's token file, and context is for TLS and client certificates.

        With several URLs, the next one is asked when one does not answer.
        """
        self._urls = [_address(one) for one in ([url] if isinstance(url, str) else url)]
        if not self._urls:
            raise ValueError("give the URL of at least one server")
        self._current = 0
        self._context = context
        self._headers = {"Content-Type": "application/json", "Connection": "close"}
        if token:
            self._headers["Authorization"] = "Bearer " + token

    def lock(self, name: str, *, ttl: float = 30.0, wait: float = 0.0, shared: bool = False, slots: int = 0,
             label: str = "", keep: float = 0.0, fence_above: int = 0) -> Lock:
        """Return a lock for one "with" or "async with". Times are in seconds."""
        body: dict[str, Any] = {"name": name, "ttl_ms": round(ttl * 1000)}
        options = {"shared": shared, "slots": slots, "label": _labelled(label), "keep_ms": round(keep * 1000), "fence_above": fence_above}
        body.update({key: value for key, value in options.items() if value})
        return Lock(self, body, ttl, wait)

    def status(self, name: str, *, slot: Optional[int] = None) -> dict[str, Any]:
        """Return the holders of a name, in the fields of /v1/status. They may be outdated already."""
        return self._ask("status", name, slot, {})

    def break_lock(self, name: str, fence: int, *, slot: Optional[int] = None, reason: str = "") -> int:
        """End the holds of the name while it has this fence of status(), and return the new fence.

        The work under the lock does not end: it finds out at its next renewal. HeldError means that
        the name has another fence by now, and that nothing was broken. After UnavailableError,
        which also comes without an answer, look again: the lock may be broken.
        """
        return int(self._ask("break", name, slot, {"fence": fence, "reason": reason}).get("fence", 0))

    def ask(self, name: str, reason: str = "") -> Optional[dict[str, Any]]:
        """Ask the holder of a name to finish early, and tell it the reason. None: nobody has it.

        The lock does not end: the holder finds the question with Lock.asked(), and finishes when it
        can, or goes on. The result has the fields of /v1/ask; "earlier" is true if another client
        has asked before, whose question stays. A question lasts for a minute: repeat it.
        """
        status, answer = self.post("ask", {"name": name, "reason": _labelled(reason, MAX_REASON)}, 20)
        if status == 410:
            return None
        if status != 200:
            raise _error(name, status, answer)
        return answer

    def _ask(self, path: str, name: str, slot: Optional[int], body: dict[str, Any]) -> dict[str, Any]:
        status, answer = self.post(path, {"name": name, **body, **({} if slot is None else {"slot": slot})}, 20)
        if status != 200:
            raise _error(name, status, answer)
        return answer

    @property
    def servers(self) -> int:
        """How many servers the client has."""
        return len(self._urls)

    @property
    def current(self) -> int:
        """The number of the server that is asked next."""
        return self._current

    def post(self, path: str, body: dict[str, Any], timeout: float, at: Optional[int] = None) -> tuple[int, dict[str, Any]]:
        """Send one request. Without an answer, the status is 0, and the next server is the current one."""
        at = self._current if at is None else at
        status, answer = self._post(self._urls[at], path, body, timeout)
        if status == 202 and not isinstance(answer.get("retry_ms"), (int, float)):
            status = 0  # a proxy has said that: no server of padlock
        if _is_open(status) and self._current == at:
            self._current = (at + 1) % len(self._urls)
        return status, answer

    def _post(self, url: urllib.parse.SplitResult, path: str, body: dict[str, Any], timeout: float) -> tuple[int, dict[str, Any]]:
        """Ask one server itself: neither a proxy nor a redirect may get the token."""
        end, status = _now() + timeout, 0
        if url.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(url.netloc, timeout=timeout, context=self._context)
        else:
            connection = http.client.HTTPConnection(url.netloc, timeout=timeout)

        def timed(sock: socket.socket, *arguments: Any, **more: Any) -> http.client.HTTPResponse:
            reply = http.client.HTTPResponse(sock, *arguments, **more)
            reply.fp = io.BufferedReader(_Timed(sock, reply.fp.detach(), end))  # type: ignore[attr-defined]
            return reply

        connection.response_class = timed  # type: ignore[assignment]
        try:
            connection.request("POST", f"{url.path}/v1/{path}", json.dumps(body).encode(), self._headers)
            with connection.getresponse() as reply:
                status = reply.status
                return status, _object(reply.read(MAX_ANSWER + 1))
        except (OSError, ValueError, http.client.HTTPException) as error:
            if 300 <= status < 500:
                return status, {"detail": f"{status}, and not from a server of padlock"}
            return 0, {"detail": f"the server does not answer: {error or type(error).__name__}"}
        finally:
            connection.close()


def _object(text: bytes) -> dict[str, Any]:
    """Return the JSON object of a reply. ValueError means that no server of padlock has sent it."""
    answer = json.loads(text) if len(text) <= MAX_ANSWER else None
    if isinstance(answer, dict):
        return answer
    raise ValueError("the answer is no JSON object, or is too long")


def _is_open(status: int) -> bool:
    """Whether the same request may have another answer: from the same server later, or from another."""
    return status == 0 or status >= 500 and status != 501


def _retry(answer: dict[str, Any], otherwise: float) -> float:
    """The seconds after which the server wants the next request."""
    asked = answer.get("retry_ms")
    return max(0.001, asked / 1000) if isinstance(asked, (int, float)) else otherwise


def _is_grant(answer: dict[str, Any], token: str) -> bool:
    valid = answer.get("valid_ms")
    return answer.get("token") == token and isinstance(valid, (int, float)) and isinstance(answer.get("fence"), int)


def _error(name: str, status: int, answer: dict[str, Any], waited: bool = False) -> PadlockError:
    detail = answer.get("detail")
    if status in (202, 409):
        if waited:
            return WaitTimeoutError(f"the lock {name!r} is held, also at the end of the wait", answer)
        return HeldError(f"the lock {name!r} is held" + (f": {detail}" if detail else ""), answer)
    if status in (200, 410, 429) or _is_open(status):  # 410: the lease was over before the answer
        return UnavailableError(f"the lock {name!r}: {detail or 'the server does not answer'}", answer)
    return RefusedError(f"the lock {name!r}: {detail or status}", answer)


class _Wish:
    """What an acquire asks for, whether its task still wants the lock, and whether it has it."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self.abandoned = False
        self.granted = False
        self.answer: dict[str, Any] = {}
        self.renew()

    def renew(self) -> None:
        """Make a new token, of which no server knows."""
        self.token, self.silent = secrets.token_hex(16), 0
        self.asked: set[int] = set()  # the servers that may know the token
        self.known = False  # whether the token may have the lock or a place among the waiters


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
    """One hold on a name. Threads of its own renew and watch it until the end of "with".

    fence grows with each holder: send it with each write. lost is set when the lock is lost; long
    work calls check from time to time. At the end, "with" raises LostError if the lock did not last.
    "async with" cancels the task when the lock is lost, and raises LostError in place of CancelledError.
    """

    def __init__(self, client: Client, body: dict[str, Any], ttl: float, wait: float) -> None:
        self._client, self._body, self._ttl, self._wait = client, body, ttl, wait
        self._hold: dict[str, Any] = {}
        self._held = _Wish()  # that of the hold
        self._asking: Optional[_Wish] = None  # that of an acquire under way
        self._lasted: Optional[bool] = None  # the result of the release, which is sent once
        self._pid = os.getpid()  # a child has a copy of the lock, and does not hold it
        self._stop = threading.Event()
        self._guard = threading.Lock()
        self._when_lost: Any = None
        self._cancelled = False
        self._until = self._kept_until = 0.0
        self._question: Optional[dict[str, Any]] = None
        self._look_at = 0.0  # when asked() sends its next request
        self.fence = 0
        self.slot: Optional[int] = None
        self.lost = threading.Event()

    def acquire(self) -> Lock:
        """Take the lock for as long as release() does not come. "with" does both.

        A Lock has one hold at a time; RuntimeError means that it has one already.
        """
        self._acquire(self._claim())
        return self

    def release(self) -> None:
        """Release the lock. It raises LostError if the lock did not last until now.

        A second release of the same hold has the result of the first, as has the end of "with".
        """
        if not self._hold:
            raise LostError(f"the lock {self._body['name']!r} was never acquired")
        self._release()

    def extend(self) -> float:
        """Renew the lease now, and return remaining(). Threads do it every third of the lease."""
        self.check()
        status, answer = self._extend(self._stop)
        self.check()
        if status != 200:
            raise _error(self._body["name"], status, answer)
        return self.remaining()

    def locked(self) -> bool:
        """Whether the lock is held here. It sends no request."""
        return self.remaining() > 0

    def remaining(self) -> float:
        """The seconds for which the lock is valid if it is not renewed; 0 if it is lost."""
        return 0.0 if self.lost.is_set() or self._pid != os.getpid() else max(0.0, self._until - _now())

    def check(self) -> None:
        """Raise LostError if the lock is lost. It sends no request."""
        if self.remaining() <= 0:
            raise LostError(f"the lock {self._body['name']!r} is lost")

    def asked(self) -> Optional[dict[str, Any]]:
        """Return the question that asks this holder to finish early, or None if there is none.

        It sends at most one request a second, of /v1/status; in between, it has the last result.
        So work may call it before each step; a coroutine uses asyncio.to_thread(lock.asked).
        Nobody can ask the holder of a slot. RefusedError means that the token may not read.
        """
        if self._question is None and self.slot is None and self.remaining() > 0 and _now() >= self._look_at:
            self._look_at = _now() + ASKED_EVERY
            status, answer = self._client.post("status", {"name": self._body["name"]}, min(5.0, max(0.05, self.remaining())))
            found = answer.get("asked")
            if status != 200 and not _is_open(status) and status != 429:
                raise _error(self._body["name"], status, answer)
            if isinstance(found, dict) and isinstance(found.get("fence"), int) and found["fence"] >= self.fence:
                self._question = found  # a smaller fence is that of an earlier holder
        return self._question

    def _claim(self) -> _Wish:
        """Prepare for the next hold."""
        with self._guard:
            if self._asking is not None or self.remaining() > 0:
                raise RuntimeError(f"this Lock has {self._body['name']!r}, or asks for it; make another one with Client.lock()")
            wish = self._asking = _Wish()
        self._end()  # no thread of a hold that was lost goes on
        self._hold, self._lasted, self._when_lost, self._cancelled = {}, None, None, False
        self._question, self._look_at = None, 0.0
        self.lost.clear()
        return wish

    def _acquire(self, wish: _Wish) -> None:
        try:
            self._ask(wish)
        except BaseException as error:
            # Also after an exception from elsewhere, as that of a signal, nobody wants the lock.
            if wish.known or wish.asked and not isinstance(error, PadlockError):
                if not wish.abandoned:
                    self._end()
                self._give_up(wish)
            raise
        finally:
            if self._asking is wish:
                self._asking = None

    # The same token goes out again only after no answer, 202, 429, 503 or 504.
    def _ask(self, wish: _Wish) -> None:
        began, pause, servers = _now(), 0.1, self._client.servers
        while True:
            sent = _now()
            poll = max(0.0, min(began + self._wait - sent, SHORTER_POLL if servers > 1 else LONGEST_POLL))
            at = self._client.current
            if wish.abandoned:
                raise UnavailableError(f"the lock {self._body['name']!r} was given up")
            wish.asked.add(at)
            request = {**self._body, "token": wish.token, "wait_ms": round(poll * 1000)}
            status, answer = self._client.post("acquire", request, poll + 20 / (servers + 1), at)
            wish.answer = answer
            if status == 200 and not (_is_grant(answer, wish.token) and _now() < sent + answer["valid_ms"] / 1000):
                status = 0  # also a lock that came too late
            wish.known = wish.known or status in (200, 202) or _is_open(status)
            with wish.guard:
                if status == 200 and not wish.abandoned:
                    self._begin(wish, sent)
                    wish.granted = True
                    return
            left = began + self._wait - _now()
            if wish.abandoned:
                left = -KEEP_TRYING
            if status in (409, 410) and wish.known:
                self._give_up(wish)  # a request without an answer may still be carried out
                wish.known = False
            if status == 410 and left > 0:
                wish.renew()
            elif status == 202 and left > 0:
                continue
            elif status == 429 and left > 0:
                time.sleep(min(left, _retry(answer, pause) * random.uniform(0.5, 1.0)))
            elif _is_open(status) and left > -KEEP_TRYING:
                wish.silent += 1
                if wish.silent % servers == 0:  # otherwise another server may answer at once
                    time.sleep(pause * random.uniform(0.5, 1.0))
                    pause = min(2.0, pause * 2)
            else:
                raise _error(self._body["name"], status, answer, self._wait > 0 and left <= 0)

    def _give_up(self, wish: _Wish, patience: float = 5.0, **keep: int) -> None:
        """Release a token at each server that may have granted it.

        A request that got no answer may arrive after the release, so the release goes out a second
        time. It is not waited for. Without patience, the first one is not waited for here, but by
        the end of the process.
        """
        slot = {"slot": wish.answer["slot"]} if "slot" in wish.answer else {}
        body = {"name": self._body["name"], "token": wish.token, **slot, **keep}

        def release(at: int) -> None:
            self._client.post("release", body, 5, at)

        def once() -> list[threading.Thread]:
            threads = [threading.Thread(target=release, args=(at,), name="padlock release", daemon=patience > 0) for at in sorted(places)]
            for thread in threads:
                thread.start()
            return threads

        places = set(wish.asked)
        again = threading.Timer(1.0, once)
        again.daemon = True
        again.start()
        end = _now() + patience
        for thread in once():
            thread.join(max(0.0, end - _now()))

    def _begin(self, wish: _Wish, sent: float) -> None:
        answer = wish.answer
        self._hold = {"name": self._body["name"], "token": wish.token}
        self._held, self._pid = wish, os.getpid()
        self.fence, self.slot = answer.get("fence", 0), answer.get("slot")
        if self.slot is not None:
            self._hold["slot"] = self.slot
        self._until = sent + answer["valid_ms"] / 1000
        self._kept_until = _now() + self._body.get("keep_ms", 0) / 1000
        self._stop = threading.Event()  # each hold has one, so that no thread of an earlier hold goes on
        for work in (self._watch, self._renew):
            threading.Thread(target=work, args=(self._stop,), name="padlock " + repr(self._body["name"]), daemon=True).start()

    def _lose(self, stop: threading.Event) -> None:
        with self._guard:
            if stop.is_set():
                return
            stop.set()
            self.lost.set()
        if self._when_lost is not None:
            self._when_lost()

    def _watch(self, stop: threading.Event) -> None:
        """Report the loss in time, even while a request for the renewal hangs."""
        while not stop.wait(max(0.0, min(LOOK_EVERY, self._until - _now()))):
            if _now() >= self._until:
                self._lose(stop)

    def _renew(self, stop: threading.Event) -> None:
        """Extend the lease every third of it. Without an answer, try again sooner, until it is over."""
        again = self._ttl / 3
        while not stop.wait(max(0.0, min(again, self._until - _now()))):
            again = self._ttl / (3 if self._extend(stop)[0] == 200 else 10)

    def _extend(self, stop: threading.Event) -> tuple[int, dict[str, Any]]:
        sent, body = _now(), {**self._hold, "ttl_ms": self._body["ttl_ms"]}
        status, answer = self._client.post("extend", body, max(0.05, min(self._ttl / 6, self._until - sent)))
        valid = answer.get("valid_ms")
        if status == 410 or _now() >= self._until:
            self._lose(stop)  # a late answer revives nothing
        elif status == 200 and isinstance(valid, (int, float)):
            with self._guard:
                if not stop.is_set():
                    self._until = max(self._until, sent + valid / 1000)
        return status, answer

    def _end(self) -> float:
        """Stop the renewal, and return when the lease ends; 0 if the lock is lost."""
        with self._guard:
            until, self._until = 0.0 if self.lost.is_set() else self._until, 0.0
            self._stop.set()
        return until

    def _release(self) -> None:
        """Release the lock, unless that has been done, and raise LostError if it did not last."""
        if self._pid != os.getpid():
            raise LostError(f"process {self._pid} has the lock {self._body['name']!r}, not this child")
        if self._lasted is None:
            self._lasted = False
            try:
                self._lasted = self._send_release()
            except BaseException:  # that of a signal, at any place
                self._end()
                self._give_up(self._held, 0.0, **self._keep())
                raise
        if not self._lasted:
            raise LostError(f"the lock {self._body['name']!r} was lost before the end of the work")

    def _keep(self) -> dict[str, int]:
        rest = math.ceil((self._kept_until - _now()) * 1000)
        return {"keep_ms": rest} if rest > 0 else {}

    def _send_release(self) -> bool:
        """Stop the renewal, release the lock, and return whether it lasted until now."""
        until, unknown = self._end(), False
        lasted = until > _now()
        body = {**self._hold, **self._keep()}
        for pause in (0.1, 0.5, 0.0):
            status, answer = self._client.post("release", body, 5)
            if status == 200:
                outcome = answer.get("outcome")
                # An earlier request whose answer was lost may have released it.
                # Or the lease has ended since the work did, because the release took so long.
                mine = outcome == "released" or outcome == "gone" and unknown or outcome == "expired" and _now() >= until
                lasted = lasted and mine
                break
            unknown = unknown or status != 503
            time.sleep(pause)
        if self._held.silent and self._client.servers > 1:  # a server whose answer was lost may keep a place
            self._give_up(self._held, 1.0)
        return lasted

    def __enter__(self) -> Lock:
        return self.acquire()

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if error is not None and self._pid != os.getpid():
            return  # as after sys.exit() in a child
        try:
            self._release()
        except LostError as lost:
            if error is None:
                raise
            raise lost from error

    async def __aenter__(self) -> Lock:
        wish, task, loop = self._claim(), asyncio.current_task(), asyncio.get_running_loop()

        def cancel() -> None:
            if self._when_lost is not None and task is not None:  # otherwise the work has ended meanwhile
                self._cancelled = True
                task.cancel()

        self._when_lost = lambda: loop.call_soon_threadsafe(cancel)
        try:
            await _in_thread(lambda: self._acquire(wish), daemon=True)
        except asyncio.CancelledError:
            # The thread goes on until its request ends, which may be after the end of the process.
            self._when_lost = self._asking = None
            with wish.guard:
                wish.abandoned = True
            if wish.granted:
                self._end()
            self._give_up(wish, 0.0)
            raise
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self._when_lost = None
        if self._cancelled:  # even if the work has caught the CancelledError
            task = asyncio.current_task()
            if task is not None and hasattr(task, "uncancel"):
                task.uncancel()
        try:
            await _in_thread(self._release, daemon=False)
        except LostError as lost:
            raise lost from error
