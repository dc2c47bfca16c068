"""Functional layers that use the same libraries as the real torch."""

import os
from array import array

from torch import backends
from torch._libraries import call
from torch._tensor import Tensor


def linear(values, weight, bias=None):
    """Return `values @ weight.T + bias`; the GPU uses cuBLASLt unless DISABLE_ADDMM_CUDA_LT is 1."""
    if values.device == "cuda" and bias is not None and os.environ.get("DISABLE_ADDMM_CUDA_LT") != "1":
        call("standin_use_cublaslt")
    product = values @ weight.T
    if bias is None:
        return product
    rows = product.shape[0]
    repeated = Tensor(array(bias.dtype.code, list(bias.host()) * rows), product.shape, bias.dtype)
    return product + repeated.to(product.device)


def conv2d(image, weight, padding=0):
    """Return the convolution; the GPU uses cuDNN unless it is disabled."""
    if image.device == "cuda" and backends.cudnn.enabled:
        call("standin_use_cudnn")
    batch, channels, height, width = image.shape
    out, _, window, _ = weight.shape
    terms = channels * window * window
    size = (height + 2 * padding - window + 1, width + 2 * padding - window + 1)
    flat = weight.reshape(out, terms)
    data, each = image.host(), channels * height * width
    result = array(image.dtype.code)
    for at in range(batch):
        planes = [
            data[at * each + c * height * width : at * each + (c + 1) * height * width]
            for c in range(channels)
        ]
        patches = _patches(planes, (height, width), window, padding, size)
        columns = Tensor(patches, (terms, size[0] * size[1]), image.dtype).to(image.device)
        result.extend((flat @ columns).host())
    return Tensor(result, (batch, out, *size), image.dtype).to(image.device)


def _patches(planes, shape, window, padding, size):
    """Return, for each window element, the inputs that it is multiplied by."""
    height, width = shape
    padded_width = width + 2 * padding
    found = array(planes[0].typecode)
    for plane in planes:
        edge = array(plane.typecode, bytes(padding * plane.itemsize))
        blank = array(plane.typecode, bytes(padded_width * plane.itemsize))
        lines = [edge + plane[row * width : (row + 1) * width] + edge for row in range(height)]
        lines = [blank] * padding + lines + [blank] * padding
        for down in range(window):
            for right in range(window):
                for row in range(size[0]):
                    found.extend(lines[row + down][right : right + size[1]])
    return found
