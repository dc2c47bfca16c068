"""Output from healthy programs, reproducible with a seed.

The lines are invented, but use the formats of real programs. None of them shows a failure, so every finding
in them is a false positive. `PLAIN` lines do not mention the machine, so they do not change any result.
`TELLING` lines mention the system and the programs (with versions and paths), as real logs do. They never
mention a GPU or a ROCm version, or that a GPU works, because such facts would contradict the log to which
they are added.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_STRETCH = (20, 200)  # consecutive lines from one program
BAR = "█" * 20
_WORDS = (
    *("error_handling.py", "test_errors.json", "failed_runs.csv", "out_of_memory_guide.md", "crash.mp4"),
    *("landscape", "portrait-03", "model-00002-of-00004.safetensors", "vae-ft", "upscaler_4x", "final"),
    *("encoder.layers.11.mlp", "decoder.block.3.attn", "batch-0017", "warning_signs.png", "no_gpu.txt"),
)

# Program -> its lines. {n} is 0-9999, {s} 00-59, {p} 0-99, {m} 0-9, {h} eight hexadecimal digits, {f} a
# fraction, {w} a word, and {bar} part of a progress bar.
PLAIN: dict[str, tuple[str, ...]] = {
    "images": (
        '12:04:{s}-{n:06d} INFO     Load model: select="{w}" time={f}',
        "12:04:{s}-{n:06d} DEBUG    Cache: key={h} hits={n} errors=0 failed=0",
        "12:04:{s}-{n:06d} INFO     Processed: images=1 time={f} timers={{'encode': {f}, 'decode': {f}}}",
        '12:04:{s}-{n:06d} INFO     Save: image="outputs/{n:05d}-{w}.png" type=PNG size={n}',
        "12:04:{s}-{n:06d} WARNING  Sampler: unsupported option ignored: name={w}",
        "{p:3d}%|{bar}| {p}/100 [00:{s}<00:{s},  {f}it/s]",
        "Total progress: {p}%|{bar}| {n}/10000 [12:{s}<08:{s},  {f}it/s]",
        "Loading weights [{h}] from models/{w}",
        "Model loaded in {f}s (load weights: {f}s, create model: {f}s, move to device: {f}s).",
        "FutureWarning: `resume_download` is deprecated and will be removed; downloads always resume.",
        "Textual inversion embeddings loaded({n}): {w}",
        "Startup time: {f}s (prepare environment: {f}s, import errors checked: {f}s, create ui: {f}s).",
    ),
    "graph": (
        "got prompt {h}",
        "Requested to load {w}",
        "loaded completely {f} {f} True",
        "Prompt executed in {f} seconds",
        "model weight dtype float16, manual cast: None",
        "   {f} seconds: custom_nodes/{w}",
        "[INFO] node {n} of {n}: cached output reused, error count 0",
        "Using split optimization for cross attention",
        "lora key not loaded: {w}.alpha",
        "Import times for custom nodes: {f} seconds",
    ),
    "render": (
        "Fra:{n} Mem:{n}.{p}M (Peak {n}.{p}M) | Time:00:{s}.{p} | Remaining:01:{s}.{p} | Sample {n}/4096",
        "Fra:{n} Mem:{n}.{p}M (Peak {n}.{p}M) | Time:00:{s}.{p} | Syncing {w}",
        "Saved: 'render/{w}_{n:04d}.png'",
        "Time: 00:{s}.{p} (Saving: 00:00.{p})",
        "Updating Geometry BVH {w} {p}/100",
        'Read prefs: "{w}/userpref.blend"',
        "Warning: property '{w}' is animated twice, the last one counts",
    ),
    "chat": (
        "slot update_slots: id {p} | task {n} | prompt processing progress, n_past = {n}, progress = {f}",
        "prompt eval time = {f} ms / {n} tokens ({f} ms per token, {f} tokens per second)",
        "load_tensors: layer {p} assigned, is_swa = 0",
        "print_info: n_embd           = {n}",
        ".........................................................",
        '[GIN] 2026/11/22 - 12:04:{s} | 200 | {f}ms | 127.0.0.1 | POST "/api/generate"',
        'time=12:04:{s} level=INFO source=server.go:{n} msg="runner started in {f} seconds" error=<nil>',
    ),
    "training": (
        "epoch {p} step {n} loss {f} lr 1.0e-04 grad_norm {f} skipped 0 error_rate {f}",
        "{{'loss': {f}, 'grad_norm': {f}, 'learning_rate': 1e-05, 'epoch': {f}}}",
        "saving torch checkpoint to runs/{w}/step-{n}",
        "validation: accuracy {f}, errors {n} of 9999, failed samples 0",
        "UserWarning: the number of workers exceeds the suggested {p}; loading may be slower.",
        "dataloader: worker {p} exited normally after {n} batches",
        "  warnings.warn(",
    ),
    "packages": (
        "Collecting {w} (from -r requirements.txt (line {p}))",
        "  Downloading {w}-{p}.{p}.{p}-py3-none-any.whl ({f} MB)",
        "     {bar} {f}/{f} MB {f} MB/s eta 0:00:{s}",
        "Requirement already satisfied: {w}>={p}.{p} in site-packages ({p}.{p}.{p})",
        "Installing collected packages: {w}, mpmath, sympy, networkx",
        "Successfully installed {w}-{p}.{p}.{p}",
        "  Preparing metadata (pyproject.toml): finished with status 'done'",
    ),
    "service": (
        "2026-11-22T12:04:{s}.{n:04d}Z [worker-{p}] GET /static/{w} 304 {n} bytes",
        "2026-11-22T12:04:{s}.{n:04d}Z [worker-{p}] heartbeat ok, queue {p}, errors 0, retries 0",
        "2026-11-22T12:04:{s}.{n:04d}Z [gc] collected {n} objects, freed {f} MiB of host memory",
        "  {h} {h} {h} {h}",
        "",
    ),
}
# Lines that mention the programs and the system.
LINUX: dict[str, tuple[str, ...]] = {
    "images": (
        "Python 3.11.9 (main, Apr  6 2024, 17:59:24) [GCC 11.4.0]",
        "12:04:{s}-{n:06d} INFO     Starting SD.Next",
        "12:04:{s}-{n:06d} INFO     Version: app=sd.next updated=2026-11-0{m} branch=master",
        "12:04:{s}-{n:06d} INFO     Platform: arch=x86_64 cpu=x86_64 system=Linux python=3.11.9 docker=False",
        "12:04:{s}-{n:06d} INFO     Device: backend=rocm dtype=torch.float16 fallback errors=0",
        "12:04:{s}-{n:06d} INFO     Torch: torch==2.8.0 torchvision==0.23.0",
        "12:04:{s}-{n:06d} INFO     Engine: compute=rocm torch device=cuda:0 time={f}",
        "Install script for stable-diffusion + Web UI",
        "Repo already cloned, using it as install directory",
        "Launching Web UI with arguments: --autolaunch --theme dark",
        "Version: f2.0.1v1.10.1-previous-{n}-g{h}",
        "Installing requirements for Forge in /home/user/stable-diffusion-webui-forge/venv",
        "/home/user/stable-diffusion-webui/venv/lib/python3.11/site-packages/timm/layers.py:{n}: "
        "FutureWarning: importing from timm.models.layers is deprecated",
        "Running on local URL:  http://127.0.0.1:7860",
    ),
    "graph": (
        "** ComfyUI startup time: 2026-11-22 12:04:{s}.{n:06d}",
        "** Python version: 3.11.9 (main, Apr  6 2024, 17:59:24) [GCC 11.4.0]",
        "** Python executable: /home/user/ComfyUI/venv/bin/python",
        "** ComfyUI Path: /home/user/ComfyUI",
        "pytorch version: 2.8.0",
        "Device: cuda:0 native, torch allocator, VRAM state NORMAL_VRAM",
        "[Prompt Server] web root: /home/user/ComfyUI/venv/lib/python3.11/site-packages/web",
        "/home/user/ComfyUI/comfy/ops.py:{n}: UserWarning: Memory Efficient attention on this GPU is still "
        "experimental.",
        "To see the GUI go to: http://127.0.0.1:8188",
    ),
    "render": (
        "Blender 4.5.2 LTS (hash {h} built 2026-06-03 00:50:37)",
        "Blender starts, built for x86_64, compiled with HIP and CUDA and OptiX devices",
        "found bundled python: /opt/blender/4.5/python",
        "Cycles: device HIP selected, kernels loaded from /home/user/.cache/cycles/kernels/{h}",
        'Read blend: "/home/user/scenes/{w}.blend"',
    ),
    "chat": (
        "main: build = {n} ({h}) with cc 13.3.0 for x86_64-linux-gnu",
        "main: llama.cpp server is listening on http://127.0.0.1:8080 - starting the main loop",
        "ggml_cuda_init: GGML_CUDA_FORCE_MMQ:    no",
        "load_backend: loaded ROCm backend from /opt/llama.cpp/libggml-hip.so",
        "load_backend: loaded CPU backend from /opt/llama.cpp/libggml-cpu-haswell.so",
        "llama_model_loader: - kv  {p}: general.name str = {w}",
        "llama_kv_cache: size = {f} MiB ({n} cells, {p} layers)",
        'time=12:04:{s} source=routes.go:{n} msg="Listening on 127.0.0.1:11434 (version 0.12.6)"',
        'time=12:04:{s} level=INFO source=routes.go:{n} msg="server config" env="map[OLLAMA_DEBUG:false '
        'OLLAMA_KEEP_ALIVE:5m0s OLLAMA_MODELS:/usr/share/ollama/.ollama/models]"',
        'time=12:04:{s} level=DEBUG source=gpu.go:{n} msg="looking for libraries" globs="/opt/rocm/lib" '
        "app=ollama",
    ),
    "training": (
        "Python 3.12.3 | torch 2.8.0 | transformers 4.5{m}.0 | /home/user/train/venv/bin/python",
        "/home/user/venv/lib/python3.11/site-packages/torch/nn/modules/module.py:{n}: UserWarning: full "
        "backward hooks are called once.",
        "torch.compile off, {n} MiB of host memory pinned",
        "PyTorch version: 2.8.0, checkpoints in /home/user/train/runs/{w}",
        "MIOpen(HIP): Warning [IsEnoughWorkspace] [GetSolutionsFallback WTI] Solver <GemmFwdRest>, workspace "
        "required: {n}, provided ptr: 0 size: 0",
    ),
    "packages": (
        "Looking in indexes: a mirror of this site",
        "Downloading {w}-{p}.{p}.{p}-cp311-cp311-manylinux_2_28_x86_64.whl ({f} MB)",
        "Requirement already satisfied: torch==2.8.0 in ./venv/lib/python3.11/site-packages (2.8.0)",
        "[notice] To update, run: pip install --upgrade pip",
        "Get:{p} main amd64 librocm-data all {p}.{p}-{p} [{n} kB]",
        "Unpacking libdrm-amdgpu-radeonsi ({p}.{p}-{p}) ...",
        "Processing triggers for man-db ({p}.{p}-{p}) ...",
        "The following NEW packages will be installed: python3-{w} libhipcub-doc",
    ),
    "kernel": (
        "[    {p}.{n:06d}] [drm] amdgpu kernel modesetting enabled.",
        "[    {p}.{n:06d}] amdgpu: Virtual CRAT table created for CPU",
        "[    {p}.{n:06d}] amdgpu 0000:03:00.0: enabling device (0006 -> 0007)",
        "[    {p}.{n:06d}] amdgpu 0000:03:00.0: amdgpu: Fetched VBIOS from VFCT",
        "[    {p}.{n:06d}] amdgpu 0000:03:00.0: amdgpu: Trusted Memory Zone (TMZ) feature not supported",
        "[    {p}.{n:06d}] amdgpu 0000:03:00.0: amdgpu: RAS: optional ras ta ucode is not available",
        "[    {p}.{n:06d}] amdgpu 0000:03:00.0: amdgpu: smu driver if version = 0x{h}, fw = 0x{h}",
        "[    {p}.{n:06d}] amdgpu 0000:03:00.0: amdgpu: SMU driver if version not matched",
        "[    {p}.{n:06d}] amdgpu 0000:03:00.0: amdgpu: SMU is initialized successfully!",
        "[    {p}.{n:06d}] amdgpu 0000:03:00.0: amdgpu: ring comp_1.{p}.0 uses VM inv eng {p} on hub 0",
        "[    {p}.{n:06d}] amdgpu 0000:03:00.0: amdgpu: Secure display: Generic Failure.",
        "[    {p}.{n:06d}] kfd kfd: amdgpu: Allocated {n} bytes on gart",
        "[    {p}.{n:06d}] amdgpu 0000:03:00.0: amdgpu: [drm] Loading DMUB firmware via PSP",
        "[    {p}.{n:06d}] EXT4-fs (nvme0n1p2): re-mounted. Opts: errors=remount-ro. Quota mode: none.",
        "[    {p}.{n:06d}] usb 1-{p}: new high-speed USB device number {p} using xhci_hcd",
        "[    {p}.{n:06d}] systemd[1]: Started {w}.service.",
    ),
}
WINDOWS: dict[str, tuple[str, ...]] = {
    "images": (
        'venv "C:\\app\\venv\\Scripts\\Python.exe"',
        "Python 3.10.11 (tags/v3.10.11:7d4cc5a, Apr  5 2023, 00:38:17) [MSC v.1929 64 bit (AMD64)]",
        "12:04:{s}-{n:06d} INFO     Starting SD.Next",
        "12:04:{s}-{n:06d} INFO     Platform: arch=AMD64 system=Windows python=3.10.11 docker=False",
        "12:04:{s}-{n:06d} INFO     Torch: torch==2.8.0 torchvision==0.23.0",
        "Launching Web UI with arguments: --autolaunch --theme dark",
        "Installing requirements for Forge in C:\\app\\stable-diffusion-webui-forge\\venv",
        "C:\\app\\venv\\lib\\site-packages\\torch\\cuda\\__init__.py:{n}: UserWarning: expandable segments "
        "are not supported on this platform",
        "Creating venv in directory C:\\app\\venv using python, error log at C:\\app\\tmp\\stderr-{n}.txt",
        "Running on local URL:  http://127.0.0.1:7860",
    ),
    "graph": (
        "** Platform: Windows",
        "** Python version: 3.11.9 (tags/v3.11.9:de54cf5, Apr  2 2024, 10:12:12) [MSC v.1938 64 bit (AMD64)]",
        "** Python executable: C:\\app\\ComfyUI\\venv\\Scripts\\python.exe",
        "** ComfyUI Path: C:\\app\\ComfyUI",
        "pytorch version: 2.8.0",
        "   {f} seconds: C:\\app\\ComfyUI\\custom_nodes\\{w}",
        "To see the GUI go to: http://127.0.0.1:8188",
    ),
    "render": (
        "Blender 4.5.2 LTS (hash {h} built 2026-06-03 01:41:40)",
        "found bundled python: C:\\Program Files\\Blender Foundation\\Blender 4.5\\4.5\\python",
        'Saved: "C:\\Users\\user\\render\\{w}_{n:04d}.png"',
    ),
    "chat": (
        'time=12:04:{s} source=routes.go:{n} msg="Listening on 127.0.0.1:11434 (version 0.12.6)"',
        'time=12:04:{s} level=DEBUG source=gpu.go:{n} msg="searching for libraries" '
        'globs="[C:\\\\Users\\\\user\\\\AppData\\\\Local\\\\Programs\\\\Ollama\\\\lib\\\\ollama]" app=ollama',
        "load_backend: loaded CPU backend from C:\\app\\llama.cpp\\ggml-cpu-haswell.dll",
        "main: llama.cpp server is listening on http://127.0.0.1:8080 - starting the main loop",
    ),
    "training": (
        "Python 3.12.3 | torch 2.8.0 | transformers 4.5{m}.0 | C:\\app\\train\\venv\\Scripts\\python.exe",
        "saving torch checkpoint to C:\\app\\train\\runs\\{w}\\step-{n}",
    ),
    "packages": (
        "Downloading {w}-{p}.{p}.{p}-cp311-cp311-win_amd64.whl ({f} MB)",
        "Requirement already satisfied: torch==2.8.0 in c:\\app\\venv\\lib\\site-packages (2.8.0)",
        "[notice] To update, run: python.exe -m pip install --upgrade pip",
    ),
    "system": (
        "loaded C:\\Windows\\System32\\vulkan-1.dll, layers {p}, errors 0",
        "(c) Microsoft Corporation. All rights reserved.",
        "C:\\app>call venv\\Scripts\\activate.bat",
    ),
}
TELLING = {"linux": LINUX, "windows": WINDOWS}
CHINESE = (
    "正在加载模型 {w}，请稍候……",
    "第 {n} 步，损失 {f}，没有错误",
    "图片已保存：{w}（用时 {f} 秒）",
    "提示：{n} 个节点已从缓存读取",
)


def lines(count: int, seed: int, *, telling: bool = False, system: str = "") -> list[str]:
    """Generate lines of noise.

    Args:
        count: Number of lines.
        seed: The same seed produces the same lines.
        telling: Whether to include lines that mention the system and its programs.
        system: The system that those lines describe ("linux" or "windows"), or "" for both.
    """
    chance = random.Random(seed)
    programs = dict(PLAIN)
    for name, more in TELLING.items() if telling else ():
        for program, templates in more.items() if system in ("", name) else ():
            programs[program] = (*programs.get(program, ()), *templates)
    return interleaved(list(programs.values()), count, chance)


def interleaved(programs: Sequence[Sequence[str]], count: int, chance: random.Random) -> list[str]:
    """Generate lines from programs that take turns printing several lines each."""
    printed: list[str] = []
    while len(printed) < count:
        templates = chance.choice(programs)
        stretch = min(chance.randint(*_STRETCH), count - len(printed))
        printed += [_line(templates[int(chance.random() * len(templates))], chance) for _ in range(stretch)]
    return printed


def _line(template: str, chance: random.Random) -> str:
    number = chance.getrandbits(32)
    percent = number % 100
    return template.format(
        n=number % 9973,
        s=f"{number % 60:02d}",
        p=percent,
        m=number % 10,
        h=f"{number:08x}",
        f=f"{number % 9967 / 101:.2f}",
        w=_WORDS[number % len(_WORDS)],
        bar=BAR[: percent // 5],
    )


def blocks(size: int, seed: int) -> Iterator[bytes]:
    """Yield about `size` bytes of noise that mentions the system, in blocks that all differ."""
    while size > 0:
        data = "\n".join([*lines(10_000, seed, telling=True), ""]).encode()
        yield data
        size -= len(data)
        seed += 1
