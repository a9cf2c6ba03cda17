"""Checks of every machine and its kernel, on values that a test may set."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from keyelab.host import checks
from keyelab.host.inventory import Cards, Seen
from keyelab.host.reading import Reading


@pytest.mark.parametrize(
    ("env", "status"),
    [
        ({}, "ok"),
        ({"HTTP_PROXY": "http://p:1"}, "warned"),
        ({"https_proxy": "http://p:1"}, "ok"),  # the server here speaks http
        ({"http_proxy": "http://p:1", "no_proxy": "127.0.0.1, localhost"}, "ok"),
        ({"http_proxy": "http://p:1", "NO_PROXY": "*"}, "ok"),
        ({"all_proxy": "socks5://p:1", "NO_PROXY": "localhost"}, "warned"),
        ({"http_proxy": ""}, "ok"),
    ],
)
def test_a_proxy_must_spare_loopback(env: dict[str, str], status: str) -> None:
    assert checks.proxy_check(env).status == status


def test_a_clock_behind_the_files_is_noticed() -> None:
    assert checks.clock_check(time.time()).status == "ok"
    assert checks.clock_check(0.0).found == "1970-01-01T00:00:00Z"
    assert checks.clock_check(0.0).status == "warned"


def test_locked_memory_is_read_from_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (65536, 65536))
    verdict = list(checks.kernel_checks(Cards(Seen(tmp_path))))[-1]
    assert (verdict.status, verdict.found) == ("warned", "64 KiB")


def test_the_disk_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    verdict = checks.disk_speed_check(tmp_path / "work", 2)
    assert verdict.found.endswith("MB/s read (2 MiB)")
    assert list((tmp_path / "work").iterdir()) == []


def test_a_slow_disk_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 1.0, 1.0, 2.0])
    monkeypatch.setattr(checks.time, "monotonic", lambda: next(ticks))
    verdict = checks.disk_speed_check(tmp_path, 1)
    assert verdict.status == "warned"
    assert verdict.found == "1 MB/s written, 1 MB/s read (1 MiB)"


def test_a_full_disk_is_unknown_and_left_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checks.os, "fsync", full)
    verdict = checks.disk_speed_check(tmp_path, 2)
    assert verdict.status == "unknown"
    assert "No space left on device" in verdict.found
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_unknown_and_never_ok(tmp_path: Path) -> None:
    two = Cards(Seen(tmp_path), (Reading(), Reading()))
    found = {c.name: c.status for c in checks.kernel_checks(two)}
    del found["host: locked memory"]
    assert found == {
        "host: NUMA balancing": "unknown", "host: ACS": "unknown", "host: huge pages": "unknown",
    }  # fmt: skip
