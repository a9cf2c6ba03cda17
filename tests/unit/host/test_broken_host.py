"""Each check of a host with cards, seen failing on a recorded host that is broken on purpose."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from recorded_host import ADDRESSES, PARAMS, PCI, SAMPLES, RecordedHost

from keyelab.host import cardchecks, checks, sysfs
from keyelab.host.reading import data

LAST = ADDRESSES[-1]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordedHost:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    return RecordedHost(tmp_path)


def hold(host: RecordedHost) -> None:
    host.edit("recorded/host/hy-smi--showmeminfovram--json.txt", '"2"', '"57001"', 1)
    said = (SAMPLES / "hy-smi_showpids_busy.txt").read_text()
    host.says("hy-smi--showpids", said.replace("0000:09:00.0", ADDRESSES[0]))
    host.put("proc/1000001/comm", "llama-server\n")
    host.put("proc/1000001/cgroup", "0::/system.slice/docker-0123456789abcdef.scope\n")


def strand(host: RecordedHost) -> None:
    host.put("sys/class/kfd/kfd/proc/4711/pasid", "32770\n")
    host.put("sys/class/kfd/kfd/proc/4712/pasid", "32771\n")
    host.put("proc/4712/comm", "llama-server\n")


def spread(host: RecordedHost) -> None:
    """Only cards 3 and 4, of two sockets, are idle."""
    used = ",".join(
        f'"card{n}": {{"vram Total Memory (MiB)": "65520", "vram Total Used Memory (MiB)": '
        f'"{2 if n in (3, 4) else 60000}"}}'
        for n in range(8)
    )
    host.says("hy-smi--showmeminfovram--json", f"{{{used}}}")


def shut(host: RecordedHost) -> None:
    host.remove("dev/kfd")
    (host.root / "dev" / "kfd").mkdir()  # root may open any file, nobody a folder for writing


def replaced(name: str, old: str, new: str, count: int = -1) -> Callable[[RecordedHost], None]:
    return lambda host: host.edit(name, old, new, count)


def put(name: str, text: str) -> Callable[[RecordedHost], None]:
    return lambda host: host.put(name, text)


def gone(name: str) -> Callable[[RecordedHost], None]:
    return lambda host: host.remove(name)


def setting(**env: str) -> Callable[[RecordedHost], None]:
    return lambda host: host.env.update(env)


SAID = "recorded/host/"
BROKEN: list[tuple[str, str, Callable[[RecordedHost], None], str]] = [
    ("cards: on PCIe", "failed", gone(f"{PCI}/{LAST}"), "7: hygon 6210"),
    ("cards: one kind", "warned", replaced(f"root/{PCI}/{LAST}/uevent", "6210", "6211"),
     "hygon 6210, hygon 6211"),
    ("cards: memory regions", "failed",
     replaced(f"{SAID}lspci-D-vvv.txt", "Memory at 20000000000", "Memory at <unassigned>", 1),
     ADDRESSES[0]),
    ("cards: PCIe link", "warned",
     replaced(f"{SAID}hy-smi--showclocks.txt", "16.0GT/s, x16", "16.0GT/s, x8", 1),
     f"{ADDRESSES[0]}: 16.0GT/s x8"),
    ("driver: module", "failed", put("proc/modules", "nouveau 1 0 - Live 0x0\n"), "not loaded"),
    ("driver: cards bound", "failed", replaced(f"root/{PCI}/{LAST}/uevent", "DRIVER=hycu", ""),
     f"without a driver: {LAST}"),
    ("driver: version", "warned",
     replaced(f"{SAID}hy-smi--showdriverversion.txt", "6.3.31-V1.5.0a", "6.3.28-V1.3.0b"),
     "6.3.28-V1.3.0b"),
    ("nodes: there", "failed", gone("dev/dri/renderD131"), "/dev/dri/renderD*: 7 of 8"),
    ("nodes: open for this user", "failed", shut, "/dev/kfd: Is a directory"),
    ("toolkit: hyhal", "warned", gone("opt/hyhal"), "no /opt/hyhal/bin/hy-smi"),
    ("toolkit: one root", "failed",
     replaced("dtk/env.sh", "ROCM_PATH=$here", "ROCM_PATH=/opt/rocm"), "ROCM_PATH=/opt/rocm"),
    ("toolkit: env.sh", "failed", replaced("dtk/env.sh", "export ROCM", "exit 3\nexport ROCM"),
     "env.sh stopped: it ends the shell"),
    ("toolkit: device libraries", "failed",
     replaced("dtk/bin/hipcc", "exec", "case $* in *-c*) echo 'dcc: error: cannot find ROCm device "
              "library for gfx928'; exit 1;; esac\nexec"),
     "hipcc ended with exit status 1: dcc: error: cannot find ROCm device library for gfx928"),
    ("toolkit: HIP version", "warned", replaced("hipconfig", "6.2.0-0", "5.7.24213-0"),
     "5.7.24213-0"),
    ("runtime: cards listed", "warned",
     replaced(f"{SAID}rocminfo.txt", "HCU", "CPU", 1), "7 × gfx928"),
    ("runtime: cards listed", "failed",
     replaced(f"{SAID}rocminfo.txt", "gfx928", "gfx936"), "8 × gfx936"),
    ("runtime: limits of a block", "warned",
     replaced(f"{SAID}rocminfo.txt", "Size:      1024(0x400)", "Size:      256(0x100)", 1),
     f"{ADDRESSES[0]}: workgroup_threads 256"),
    ("runtime: no variable hides cards", "warned", setting(HIP_VISIBLE_DEVICES="4,5"),
     "HIP_VISIBLE_DEVICES=4,5"),
    ("identity: sources agree", "warned",
     replaced(f"{SAID}hy-smi--showbus--json.txt", LAST, "0000:c7:00.0"),
     f"the bus lacks 0000:c7:00.0; the runtime lacks 0000:c7:00.0; hy-smi lacks {LAST}"),
    ("use: idle", "warned", hold, f"{ADDRESSES[0]}: memory 55.7 GiB, use 0%"),
    ("use: processes", "warned", hold,
     f"9.4 GiB on {ADDRESSES[0]}: pid 1000001 (llama-server in container 0123456789ab)"),
    ("use: nothing left behind", "warned", strand, "4711"),
    ("use: healthy", "warned", replaced(f"{SAID}hy-smi--healthcheck.txt", "Healthy", "Warning", 1),
     f"{ADDRESSES[0]}: not healthy"),
    ("use: whole", "warned", replaced(f"{SAID}hy-smi.txt", "Normal", "MIG   ", 1),
     f"{ADDRESSES[0]}: mode MIG"),
    ("host: NUMA balancing", "warned", put("proc/sys/kernel/numa_balancing", "1\n"), "1"),
    ("host: ACS", "warned",
     replaced(f"{SAID}lspci-D-vvv.txt", "ACSCtl:\tSrcValid-", "ACSCtl:\tSrcValid+"),
     "0000:00:01.1"),
    ("host: CPU governor", "warned",
     put("sys/devices/system/cpu/cpu5/cpufreq/scaling_governor", "powersave\n"),
     "performance powersave"),
    ("host: huge pages", "warned",
     replaced("root/proc/meminfo", "HugePages_Total:       0", "HugePages_Total:  200000"),
     "madvise; 390.6 GiB reserved"),
    ("host: proxy spares loopback", "warned",
     setting(http_proxy="http://user:secret@proxy:3128", NO_PROXY="localhost"),
     "http_proxy set, NO_PROXY does not name both"),
    ("choice: cards for serving", "failed",
     replaced(f"{SAID}hy-smi--showuse--json.txt", "0.0", "97.0"),
     "0 of 8 cards are idle and healthy, too few"),
    ("choice: one socket", "warned", spread, "socket 0 socket 1"),
]  # fmt: skip
ELSEWHERE = {"host: locked memory", "host: clock", "disk: speed"}  # test_host_checks.py
GROUPS = ("cards", "driver", "nodes", "toolkit: ", "runtime", "identity", "use", "host", "disk: ",
          "choice")  # fmt: skip
OF_CARDS = {name for name in data("checks") if name.startswith(GROUPS)}  # the rest: test_host.py


@pytest.mark.parametrize(
    ("name", "status", "break_it", "found"), BROKEN, ids=[case[0] for case in BROKEN]
)
def test_the_check_sees_what_is_broken(
    host: RecordedHost, name: str, status: str, break_it: Callable[[RecordedHost], None], found: str
) -> None:
    break_it(host)
    verdict = host.checks()[name]
    assert verdict.status == status
    assert verdict.found.startswith(found)
    assert verdict.remedy


def test_the_commands_of_a_remedy_can_be_copied_from_a_table() -> None:
    for name, text in data("checks").items():
        assert text["remedy"].count("`") % 2 == 0, name
        assert "|" not in text["remedy"], f"{name}: a table shows \\| in code"


def test_every_check_is_seen_failing() -> None:
    assert {case[0] for case in BROKEN} | ELSEWHERE == OF_CARDS


def test_the_recorded_host_passes_all_of_them(host: RecordedHost) -> None:
    checks = host.checks()
    assert {name for name, item in checks.items() if item.status != "ok"} == set()
    assert set(checks) | {"disk: speed"} == OF_CARDS | {"hipcc", "toolkit"}


def test_one_host_with_many_faults_names_each(host: RecordedHost) -> None:
    for place in ADDRESSES:
        host.edit(f"root/{PCI}/{place}/uevent", "DRIVER=hycu", "")
    hold(host)
    host.edit("dtk/env.sh", "ROCM_PATH=$here", "ROCM_PATH=/opt/rocm")
    host.edit(f"{SAID}lspci-D-vvv.txt", "ACSCtl:\tSrcValid-", "ACSCtl:\tSrcValid+")
    bad = {name for name, item in host.checks().items() if item.status != "ok"}
    assert bad == {
        "driver: cards bound", "use: idle", "use: processes", "toolkit: one root", "host: ACS",
    }  # fmt: skip
    assert host.choice() == [1, 2], "card 0 is busy"


def test_a_closed_node_names_its_numeric_group(
    host: RecordedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = {"kfd": "Permission denied"}
    monkeypatch.setattr(sysfs, "refused", lambda path: denied.get(path.name, ""))
    verdict = host.checks()["nodes: open for this user"]
    gid = (host.root / "dev/kfd").stat().st_gid
    assert verdict.found == "/dev/kfd: Permission denied"
    assert f"gid {gid}: `sudo usermod -aG {gid} " in verdict.remedy


@pytest.mark.parametrize(
    ("tools", "unknown"),
    [
        (("hy-smi",), {"use: healthy", "use: whole", "use: idle", "driver: version"}),
        (("rocminfo",), {"runtime: limits of a block", "runtime: cards listed"}),
        (("lspci",), {"cards: memory regions", "host: ACS"}),
    ],
)
def test_without_a_tool_its_checks_are_unknown_and_say_why(
    host: RecordedHost, tools: tuple[str, ...], unknown: set[str]
) -> None:
    host.silence(*tools)
    checks = host.checks()
    for name in unknown:
        assert checks[name].status == "unknown", name
        assert checks[name].found


def test_lspci_without_root_says_nothing_of_acs(host: RecordedHost) -> None:
    host.says("lspci-D-vvv", "0000:00:01.1 PCI bridge\n\tCapabilities: <access denied>\n")
    assert host.checks()["host: ACS"].status == "unknown"


def test_no_cards_on_the_bus_is_one_failure_and_not_thirty(host: RecordedHost) -> None:
    for place in ADDRESSES:
        host.remove(f"{PCI}/{place}")
    checks = host.checks()
    assert checks["cards: on PCIe"].status == "failed"
    assert not [name for name in checks if name.startswith(("driver", "nodes", "use", "runtime"))]


def test_a_hidden_card_is_not_chosen(host: RecordedHost) -> None:
    host.env["HIP_VISIBLE_DEVICES"] = "5,6,7"
    assert host.choice() == [5, 6]


def test_a_remedy_is_never_run(host: RecordedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but questions is asked of the tools, and the tree stays as it is."""
    before = {path: path.read_bytes() for path in host.root.rglob("*") if path.is_file()}
    host.checks()
    assert {path: path.read_bytes() for path in host.root.rglob("*") if path.is_file()} == before
    asked = "".join(path.read_text() for path in (host.folder / "logs/host").glob("*.log"))
    for word in ("modprobe", "--set", "reset", "usermod", "sysctl"):
        assert word not in asked


def test_proxies_without_loopback_in_no_proxy_keep_their_password(host: RecordedHost) -> None:
    verdict = checks.proxy_check({"ALL_PROXY": "socks5://u:secret@h:1", "PATH": os.defpath})
    assert verdict.status == "warned"
    assert "secret" not in verdict.found + verdict.remedy


def test_a_cuda_host_is_checked_with_what_there_is(host: RecordedHost) -> None:
    host.params = PARAMS.model_copy(update={"backend": "cuda", "expected_cards": 1})
    host.remove(PCI)
    host.put(f"{PCI}/0000:18:00.0/uevent", "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2335\n")
    host.put("proc/modules", "nvidia 1 0 - Live 0x0\n")
    host.put("dev/nvidiactl")
    answer = "0, NVIDIA H200, 00000000:18:00.0, 143771, 1, 0, 28, 76.54, 570.86.15, 9.0, 16, 16"
    (host.folder / "nvidia-smi").write_text(f"#!/bin/sh\necho '{answer}'\n")
    (host.folder / "nvidia-smi").chmod(0o755)
    found = cardchecks.card_checks(host.cards(), host.env, host.params, None)
    assert {item.name: item.status for item in found} == dict.fromkeys(
        (
            "cards: on PCIe", "cards: one kind", "cards: memory regions", "cards: PCIe link",
            "driver: module", "driver: cards bound", "nodes: there", "nodes: open for this user",
            "identity: sources agree", "use: idle",
        ),
        "ok",
    )  # fmt: skip
    assert host.choice() == [0]


def test_an_amd_host_is_asked_with_rocm_smi(host: RecordedHost) -> None:
    host.params = PARAMS.model_copy(update={"expected_cards": 8, "probe_arch": "gfx90a"})
    host.silence("hy-smi")
    for path in (host.folder / "recorded/host").glob("hy-smi*"):
        path.rename(path.with_name(path.name.replace("hy-smi", "rocm-smi")))
    (host.folder / "rocm-smi").symlink_to("replay")
    host.edit("recorded/host/rocminfo.txt", "gfx928", "gfx90a")
    for place in ADDRESSES:
        said = "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=1002:740C\n"
        host.put(f"{PCI}/{place}/uevent", said)
    host.put("proc/modules", "amdgpu 1 0 - Live 0x0\n")
    host.remove("dev/mkfd")
    (host.toolkit / "env.sh").unlink()
    checks = host.checks()
    bad = {name: item.status for name, item in checks.items() if item.status != "ok"}
    assert bad == {"cards: PCIe link": "unknown"}, "nothing says what the slot can do"
    assert not {"driver: version", "toolkit: hyhal", "toolkit: env.sh"} & set(checks)
