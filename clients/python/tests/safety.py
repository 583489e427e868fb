"""How a test says that a promise of safety is broken.

No failure with MARK in it is ever excused as flaky. MARK stands nowhere else in the tests.
"""

MARK = "SAFETY: "


def two_hold(test, what: str) -> None:
    test.fail(f"{MARK}two hold: {what}")


def rises(test, fence: int, before: int) -> None:
    if not fence > before:
        test.fail(f"{MARK}fence {fence} after {before}")


def broken(test, what: str) -> None:
    test.fail(f"{MARK}{what}")
