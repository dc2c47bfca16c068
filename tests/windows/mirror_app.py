"""A fake SD.Next: a checkout whose `webui.bat` starts a `launch.py` that needs torch on the GPU."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# As in SD.Next, %PYTHON% creates the venv in %VENV_DIR%, and the venv's Python does the rest.
# Source: vladmandic/sdnext@058a7f0cf:webui.bat
WEBUI = r"""@echo off
setlocal
if not defined PYTHON set "PYTHON=python"
if "%SKIP_VENV%"=="1" goto launch
if not defined VENV_DIR set "VENV_DIR=%~dp0venv"
if "%VENV_DIR%"=="-" goto launch
if exist "%VENV_DIR%\Scripts\python.exe" goto activate
echo Creating venv in %VENV_DIR% using %PYTHON%
%PYTHON% -m venv "%VENV_DIR%"
if errorlevel 1 goto failed
:activate
set PYTHON="%VENV_DIR%\Scripts\python.exe"
echo Using VENV: %VENV_DIR%
:launch
%PYTHON% "%~dp0launch.py" %*
exit /b %ERRORLEVEL%
:failed
echo Unable to create venv
exit /b 1
"""

LAUNCH = r'''"""Imitates SD.Next: multiplies matrices on the GPU. For tests only."""

import argparse
import ctypes
import os
import sys
import time

OWN_NAMES = (
    ("cublas.dll", "cublas64_11.dll"),
    ("cusparse.dll", "cusparse64_11.dll"),
    ("nvrtc.dll", "nvrtc64_112_0.dll"),
)


def own_zluda(folder):
    """Load the app's own ZLUDA before torch, as SD.Next does."""
    hip = os.environ.get("HIP_PATH", "")
    if hip:
        os.add_dll_directory(os.path.join(hip, "bin"))
    ctypes.WinDLL(os.path.join(folder, "nvcuda.dll"))
    for file, name in OWN_NAMES:
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            import shutil
            shutil.copyfile(os.path.join(folder, file), path)
        ctypes.WinDLL(path)


def where(name):
    """Return the path of a loaded module."""
    kernel32 = ctypes.WinDLL("kernel32")
    kernel32.GetModuleHandleW.restype = ctypes.c_void_p
    handle = kernel32.GetModuleHandleW(name)
    if not handle:
        return "not loaded"
    path = ctypes.create_unicode_buffer(1024)
    kernel32.GetModuleFileNameW(ctypes.c_void_p(handle), path, len(path))
    return path.value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--use-zluda", action="store_true")
    parser.add_argument("--crash", action="store_true", help="multiply until something breaks")
    parser.add_argument("--seconds", type=float, default=0, help="keep running after the first product")
    parser.add_argument("--input", action="store_true", help="read a line and repeat it")
    args, rest = parser.parse_known_args()
    print(f"Starting SD.Next (stand-in) {rest}", flush=True)
    print(f"Python: {sys.executable}", flush=True)
    folder = os.environ.get("ZLUDA", os.path.join(os.path.dirname(os.path.abspath(__file__)), ".zluda"))
    if args.use_zluda and os.path.isdir(folder):
        print(f"Using the app's own ZLUDA: {folder}", flush=True)
        own_zluda(folder)
    import torch

    print(f"Torch: {torch.__version__}", flush=True)
    for name in ("nvcuda.dll", "cublas64_11.dll", "rocblas.dll"):
        print(f"{name}: {where(name)}", flush=True)
    if not torch.cuda.is_available():
        print("Torch: no GPU, using the CPU", flush=True)
        return 3
    print("Engine: backend=Backend.DIFFUSERS compute=zluda device=cuda", flush=True)
    print(f"Device: {torch.cuda.get_device_name(0)}", flush=True)
    a, b = torch.ones(2, 4).to("cuda"), torch.ones(4, 8).to("cuda")
    print(f"Sum: {float((a @ b).sum())}", flush=True)
    begin, products = time.monotonic(), 1
    while products < 200 if args.crash else time.monotonic() - begin < args.seconds:
        (a @ b).cpu()
        products += 1
    if args.crash:
        print(f"nothing broke in {products} products", flush=True)
        return 4
    if args.input:
        print(f"Line: {sys.stdin.readline().rstrip()}", flush=True)
    print("Schöne Grüße: 終わり", flush=True)
    return 0


sys.stdout.reconfigure(encoding="utf-8", errors="replace")
sys.exit(main())
'''


def stand_in_app(folder: Path, *, own_zluda: Path | None = None) -> Path:
    """Write the checkout into `folder`.

    Args:
        own_zluda: A folder with an unpacked ZLUDA build, which is copied to `.zluda`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "webui.bat").write_bytes(WEBUI.replace("\n", "\r\n").encode())
    (folder / "launch.py").write_text(LAUNCH, encoding="utf-8")
    (folder / "installer.py").write_text("# SD.Next has one\n")
    (folder / "modules").mkdir(exist_ok=True)
    if own_zluda is not None:
        shutil.copytree(own_zluda, folder / ".zluda", dirs_exist_ok=True)
    return folder
