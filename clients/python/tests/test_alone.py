"""Tests that need no server."""

import sys
import types
import unittest
from unittest import mock

import padlock_client
from padlock_client import Client


class ClockTest(unittest.TestCase):
    """The clock counts the time for which the machine sleeps, wherever the system has such a one."""

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


if __name__ == "__main__":
    unittest.main()
