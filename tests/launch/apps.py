"""Fake apps that print their help or a device list on request, or else their arguments."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from gguf import GGUFWriter

from rocenv.core.model import EnvChange
from tests.host.roots import GIB, Root
from tests.launch.lab import Lab, component

if TYPE_CHECKING:
    from collections.abc import Mapping
    from subprocess import CompletedProcess

HELPS = Path(__file__).parent / "helps"
MIB = 1 << 20
# Device ID and gfx_target_version, as in KFD's files. Source: profiles/pci.toml
KINDS = {"gfx1103": (0x15BF, 110003), "gfx1100": (0x744C, 110000), "gfx1101": (0x747E, 110001)}
LISTED = "Available devices:\n  ROCm0: AMD Radeon RX 7900 XTX (24560 MiB, 24000 MiB free)\n"
NONE = "Available devices:\n  (none)\n"


class Bench(Lab):
    """A Linux machine with one GPU, an env for it, and programs in the current folder."""

    def machine(
        self, *targets: str, used_mib: int = 0, total_mib: int = 24560, integrated: bool = False
    ) -> None:
        """Set the machine's GPUs, each with the given amount of memory in use."""
        shutil.rmtree(self.root / "linux", ignore_errors=True)
        root = Root(self.root / "linux")
        root.kernel().cpu()
        for number, target in enumerate(targets, 1):
            device, version = KINDS[target]
            units = 12 if integrated else 96
            root.gpu(number, device, version, units=units, memory=total_mib * MIB, gtt=2 * GIB)
            root.put(f"sys/bus/pci/devices/0000:{number:02x}:00.0/mem_info_vram_used", f"{used_mib * MIB}\n")
            root.put(f"sys/bus/pci/devices/0000:{number:02x}:00.0/mem_info_gtt_used", "0\n")
        self.env["ROCENV_SYSROOT"] = str(root.path)

    def env_for(
        self, target: str, *, blas: bool | None = True, rungs: Mapping[str, str] | None = None
    ) -> None:
        """Create the `llm` env. `blas`: whether rocBLAS has kernels for the target; None omits rocBLAS."""
        kernels = {True: target, False: "gfx90a"}
        files = () if blas is None else (f"rocm/lib/rocblas/library/Kernels.so-000-{kernels[blas]}.hsaco",)
        prefix = self.make(
            "llm",
            (component("rocm", "6.4.3", "debian-forky"),),
            platform="linux",
            target=target,
            files=files,
            changes=(EnvChange(action="prepend", name="PATH", value="{prefix}/bin"),),
        )
        if rungs is not None:
            found = [{"rung": rung, "status": status} for rung, status in rungs.items()]
            (prefix.own / "verified.json").write_text(json.dumps({"level": "", "rungs": found}))

    def program(self, name: str, help_name: str, *, listed: str = "", code: int = 0, more: str = "") -> Path:
        """Write a program; `more` is shell code that it runs first.

        Like a llamafile, it starts with `MZ=1`, unless it is a script, `llama-cli` or `llama-server`.
        """
        path = self.app / name
        path.parent.mkdir(parents=True, exist_ok=True)
        listing = self.root / f"{path.name}.devices"
        listing.write_text(listed)
        is_script = path.suffix == ".sh" or path.name in ("llama-cli", "llama-server")
        path.write_text(
            f"{'#!/bin/sh' if is_script else 'MZ=1'}\n{more}\n"
            'for word in "$@"; do case "$word" in\n'
            f"--help) cat '{HELPS / help_name}.txt'; exit 0 ;;\n"
            f"--list-devices) cat '{listing}'; exit {code} ;;\n"
            'esac; done\necho "ARGS $*"\nexit 0\n'
        )
        path.chmod(0o755)
        return path

    def launch(self, *words: str, app: str = "", **environ: str) -> CompletedProcess[bytes]:
        """Launch a program in the env."""
        chosen = ("--app", app) if app else ()
        return self.run("launch", "llm", *chosen, "--", *words, environ=environ)


def arguments(done: CompletedProcess[bytes]) -> str:
    """Return the arguments that a fake app received; fail the test if it did not start."""
    found = [line for line in done.stdout.decode().splitlines() if line.startswith("ARGS")]
    assert len(found) == 1, (done.stdout, done.stderr)
    return found[0].removeprefix("ARGS").strip()


def carry(program: Path, model: Path, *arguments: str) -> Path:
    """Append a model and default arguments to a program to make it look like a llamafile."""
    with zipfile.ZipFile(program, "a", zipfile.ZIP_STORED) as archive:
        archive.write(model, model.name)
        if arguments:
            archive.writestr(".args", "".join(f"{word}\n" for word in arguments))
    return program


def write_model(path: Path, *, blocks: int = 4, block_mib: int = 4, context: int = 512) -> Path:
    """Write a GGUF file with this many layers, each about this size."""
    width = 1024
    rows = block_mib * MIB // (2 * width)
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(blocks)
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(rows)
    writer.add_head_count(8)
    writer.add_head_count_kv(8)
    writer.add_vocab_size(64)
    names = ["token_embd.weight", "output.weight"]
    for name in names:
        writer.add_tensor(name, np.zeros((64, width), np.float16))
    for block in range(blocks):
        writer.add_tensor(f"blk.{block}.ffn_up.weight", np.zeros((rows, width), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
