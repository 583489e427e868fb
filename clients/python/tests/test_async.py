"""Tests of "async with" that need no server."""

import asyncio
import concurrent.futures
import gc
import threading
import unittest

import safety
from padlock_client import Client, HeldError, LostError


class Memory(Client):
    """A client of a lock in memory."""

    def __init__(self) -> None:
        super().__init__("http://nowhere.invalid")
        self.changed = threading.Condition()
        self.holder = ""
        self.seen: list = []

    def post(self, path, body, timeout, at=None):
        with self.changed:
            self.seen.append(path)
            if path == "release" and self.holder == body["token"]:
                self.holder = ""
                self.changed.notify_all()
            if path == "acquire":
                if not self.changed.wait_for(lambda: not self.holder, body["wait_ms"] / 1000):
                    return (202 if body["wait_ms"] else 409), {"retry_ms": 1}
                self.holder = body["token"]
            self.changed.notify_all()
            return 200, {"outcome": "released", "token": body["token"], "valid_ms": body.get("ttl_ms", 0), "fence": 1}


class AsyncTest(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Memory()

    def test_release_does_not_wait_behind_waiters(self) -> None:
        async def work() -> None:
            async with self.client.lock("a", wait=30):
                await asyncio.sleep(0.05)

        async def main() -> None:
            asyncio.get_running_loop().set_default_executor(concurrent.futures.ThreadPoolExecutor(2))
            await asyncio.gather(*[work() for _ in range(5)])

        try:
            asyncio.run(main())
        except HeldError:
            self.fail("the release came too late")
        self.assertEqual("", self.client.holder)

    def test_abandoned(self) -> None:
        self.client.holder = "another"

        def free() -> None:
            with self.client.changed:
                self.client.holder = ""
                self.client.changed.notify_all()

        async def main() -> None:
            async with self.client.lock("a", ttl=0.6, wait=20):
                self.fail("got a lock that another client has")

        with self.assertRaises(asyncio.TimeoutError):
            asyncio.run(asyncio.wait_for(main(), 0.1))
        free()  # the wait has been given up
        with self.client.changed:
            self.assertTrue(self.client.changed.wait_for(lambda: "release" in self.client.seen, 60))
        self.assertNotIn("extend", self.client.seen)
        self.assertEqual("", self.client.holder)

    def test_cancelled_wait_reports_nothing(self) -> None:
        self.client.holder = "another"
        said: list = []

        async def wait() -> None:
            async with self.client.lock("a", wait=0.2):
                self.fail("got a lock that another client has")

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: said.append(context))
            before = set(threading.enumerate())
            task = asyncio.create_task(wait())
            while "acquire" not in self.client.seen:
                await asyncio.sleep(0.01)
            asking = set(threading.enumerate()) - before
            task.cancel()
            await asyncio.wait([task])
            while any(thread.is_alive() for thread in asking):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0)  # what the thread has left for the loop
            await asyncio.sleep(0)
            gc.collect()

        asyncio.run(main())
        self.assertEqual([], said)

    def test_cancelled_wait_is_released_at_once(self) -> None:
        self.client.holder = "another"
        post, daemons = self.client.post, []

        def noted(path, *arguments):
            if path == "release":
                daemons.append(threading.current_thread().daemon)
            return post(path, *arguments)

        self.client.post = noted
        lock = self.client.lock("a", wait=20)

        async def main() -> None:
            task = asyncio.create_task(lock.__aenter__())
            while "acquire" not in self.client.seen:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])

        asyncio.run(main())
        with self.client.changed:
            self.assertTrue(self.client.changed.wait_for(lambda: "release" in self.client.seen, 10), "the place is kept until the request ends")
            self.client.holder = ""
        self.assertEqual([False], daemons, "the end of the process may come before the release")
        with lock:  # which has no part of the wait that was cancelled
            self.assertTrue(lock.locked())

    def test_caught_cancellation(self) -> None:
        async def main() -> None:
            with self.assertRaises(LostError):
                async with self.client.lock("a") as lock:
                    lock._lose(lock._stop)
                    try:
                        await asyncio.sleep(60)
                        self.fail("the task was not cancelled")
                    except asyncio.CancelledError:
                        pass
            if hasattr(asyncio.Task, "cancelling"):  # from Python 3.11 on
                self.assertEqual(0, asyncio.current_task().cancelling())

        asyncio.run(main())

    def test_result(self) -> None:
        async def main() -> None:
            async with self.client.lock("a") as lock:
                self.assertEqual(1, lock.fence)
                with self.assertRaises(HeldError):
                    async with self.client.lock("a"):
                        safety.two_hold(self, "a name that is held is granted")

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
