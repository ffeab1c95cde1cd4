"""When to try again: with a clock that only moves when somebody sleeps."""

from __future__ import annotations

import email.utils
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.errors import NetworkError, RateLimited
from modelkin.message import say
from modelkin.source import retry as retry_module
from modelkin.source.retry import Retry, Transient, asked_wait


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def retry_of(clock: Clock, attempts: int = 5, max_wait: float = 60.0) -> Retry:
    return Retry(
        attempts=attempts,
        max_wait=max_wait,
        sleep=clock.sleep,
        clock=lambda: clock.now,
        rng=random.Random(0),
    )


def failing(times: int, wait: float | None = None):
    calls = []

    def attempt(number: int) -> str:
        calls.append(number)
        if number < times:
            raise Transient(NetworkError("here", say("quoted", text=f"failure {number}")), wait=wait)
        return "done"

    return attempt, calls


def test_attempts_are_numbered_and_bounded(clock):
    attempt, calls = failing(2)
    assert retry_of(clock).run(attempt, host="h") == "done"
    assert calls == [0, 1, 2]
    attempt, calls = failing(99)
    with pytest.raises(NetworkError, match="failure 4"):
        retry_of(clock).run(attempt, host="h")
    assert calls == [0, 1, 2, 3, 4]


def test_the_cause_of_the_last_failure_is_kept(clock):
    def attempt(number: int) -> None:
        raise Transient(NetworkError("here", say("quoted", text="failed"))) from OSError("cut")

    with pytest.raises(NetworkError, match="failed") as caught:
        retry_of(clock, attempts=1).run(attempt, host="h")
    assert isinstance(caught.value.__cause__, OSError)


def test_other_errors_are_not_tried_again(clock):
    def attempt(number: int) -> None:
        raise NetworkError("here", say("quoted", text=f"final {number}"))

    with pytest.raises(NetworkError, match="final 0"):
        retry_of(clock).run(attempt, host="h")
    assert clock.slept == []


def test_pauses_grow_and_are_jittered(clock, monkeypatch):
    monkeypatch.setattr(retry_module, "FIRST_WAIT", 0.4)
    attempt, _ = failing(7)
    retry_of(clock, attempts=8).run(attempt, host="h")
    assert len(clock.slept) == 7
    for number, slept in enumerate(clock.slept):
        longest = min(0.4 * 2**number, 20.0)
        assert longest / 2 <= slept <= longest
    assert len(set(clock.slept)) == 7


def test_a_pause_that_was_asked_for_is_kept_and_holds_for_the_host(clock):
    retry = retry_of(clock)
    attempt, _ = failing(1, wait=30.0)
    retry.run(attempt, host="h")
    assert 30.0 <= clock.now <= 30.2
    clock.slept.clear()
    retry._not_before["h"] = clock.now + 10
    retry.run(lambda number: None, host="other")
    assert clock.slept == []
    retry.run(lambda number: None, host="h")
    assert 10.0 <= sum(clock.slept) <= 10.2


def test_a_server_that_says_now_is_not_hurried(clock, monkeypatch):
    monkeypatch.setattr(retry_module, "FIRST_WAIT", 0.4)
    attempt, _ = failing(3, wait=0.0)
    retry_of(clock).run(attempt, host="h")
    assert clock.now >= 0.2 + 0.4 + 0.8


@pytest.mark.parametrize("wait", [61.0, 1e9, float("inf")])
def test_a_pause_that_is_too_long_ends_it(clock, wait):
    attempt, calls = failing(9, wait=wait)
    with pytest.raises(RateLimited, match="the server asks us to wait"):
        retry_of(clock).run(attempt, host="h")
    assert (calls, clock.slept) == ([0], [])


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "1.5"}, 1.5),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"Retry-After": "Thu, 99 Jan 1970 00:00:00 GMT"}, None),
        ({"RateLimit": '"resolvers";r=0;t=55'}, 56.0),
        ({"RateLimit": '"resolvers";r=0;t=x'}, None),
        ({"RateLimit": '"resolvers";r=0;t=' + "9" * 40}, None),
        ({"Retry-After": "3", "RateLimit": '"api";r=0;t=55'}, 3.0),
        ({"Retry-After": "junk", "RateLimit": '"api";r=0;t=1'}, 2.0),
    ],
)
def test_the_wait_is_read_from_the_headers(headers, seconds):
    assert asked_wait(headers) == seconds


def test_a_date_is_understood():
    until = email.utils.formatdate(time.time() + 100, usegmt=True)
    wait = asked_wait({"Retry-After": until})
    assert wait is not None
    assert 90 < wait <= 100


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_header_can_break_it(retry_after, rate_limit):
    wait = asked_wait({"Retry-After": retry_after, "RateLimit": rate_limit})
    assert wait is None or wait >= 0
