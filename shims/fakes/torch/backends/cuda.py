"""Settings for matrix multiplication and attention, which are only recorded."""


class _Matmul:
    allow_tf32 = False


matmul = _Matmul()
attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def _switched(kind):
    def enable(enabled):
        attention[kind] = bool(enabled)

    return enable, lambda: attention[kind]


enable_flash_sdp, flash_sdp_enabled = _switched("flash")
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _switched("mem_efficient")
enable_math_sdp, math_sdp_enabled = _switched("math")
enable_cudnn_sdp, cudnn_sdp_enabled = _switched("cudnn")
