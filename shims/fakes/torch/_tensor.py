"""Tensors: each is an array on "cpu", or an address from the driver on "cuda"."""

import builtins
import ctypes
import operator
from array import array

from torch._libraries import call


class Dtype:
    """An element type."""

    def __init__(self, name, code):
        self.name, self.code = name, code
        self.size_bytes = array(code).itemsize

    def __repr__(self):
        return f"torch.{self.name}"


float32, float64, bool = Dtype("float32", "f"), Dtype("float64", "d"), Dtype("bool", "b")


def count_of(shape):
    """Return the number of elements."""
    count = 1
    for length in shape:
        count *= length
    return count


class Tensor:
    """A tensor with elements in row-major order."""

    def __init__(self, data, shape, dtype, device="cpu"):
        self._data = data  # an array, or an address
        self.shape, self.dtype, self.device = tuple(shape), dtype, device

    def __del__(self):
        if self.device != "cpu":
            try:
                call("standin_free", ctypes.c_size_t(self._data))
            except Exception:
                self._data = 0

    def numel(self):
        """Return the number of elements."""
        return count_of(self.shape)

    def host(self):
        """Return the elements as a Python array."""
        if self.device == "cpu":
            return self._data
        found = array(self.dtype.code, bytes(self.numel() * self.dtype.size_bytes))
        address, size_bytes = found.buffer_info()[0], len(found) * found.itemsize
        call(
            "standin_download",
            ctypes.c_void_p(address),
            ctypes.c_size_t(self._data),
            ctypes.c_size_t(size_bytes),
        )
        return found

    def address(self):
        """Return the address of the elements on the GPU."""
        return ctypes.c_size_t(self._data)

    def to(self, where):
        """Return a copy on a different device or with a different element type."""
        if isinstance(where, Dtype):
            return self._with(array(where.code, self.host()), self.shape, where)
        where = "cuda" if str(where).startswith("cuda") else "cpu"
        if where == self.device:
            return self
        data = self.host()
        if where == "cpu":
            return Tensor(data, self.shape, self.dtype)
        place, (start, length) = ctypes.c_size_t(), data.buffer_info()
        size_bytes = length * data.itemsize
        call("standin_upload", ctypes.byref(place), ctypes.c_void_p(start), ctypes.c_size_t(size_bytes))
        return Tensor(place.value, self.shape, self.dtype, "cuda")

    def _with(self, data, shape, dtype):
        return Tensor(data, shape, dtype).to(self.device)

    def cpu(self):
        """Return a copy on the CPU."""
        return self.to("cpu")

    def cuda(self):
        """Return a copy on the GPU."""
        return self.to("cuda")

    def double(self):
        """Return a copy in float64."""
        return self.to(float64)

    def float(self):
        """Return a copy in float32."""
        return self.to(float32)

    def abs(self):
        """Return the absolute values."""
        return self._with(array(self.dtype.code, map(abs, self.host())), self.shape, self.dtype)

    def reshape(self, *shape):
        """Return the same elements in a different shape."""
        return self._with(array(self.dtype.code, self.host()), shape, self.dtype)

    def transposed(self):
        """Return the transpose."""
        data, columns = self.host(), self.shape[1]
        turned = array(self.dtype.code, (each for at in range(columns) for each in data[at::columns]))
        return self._with(turned, self.shape[::-1], self.dtype)

    T = property(transposed)

    def _paired(self, other, function, dtype=None):
        if not isinstance(other, Tensor):
            result = (function(each, other) for each in self.host())
        elif other.shape != self.shape or other.device != self.device:
            raise RuntimeError(
                f"{self.shape} on {self.device} does not match {other.shape} on {other.device}"
            )
        else:
            result = map(function, self.host(), other.host())
        types = (self.dtype, other.dtype) if isinstance(other, Tensor) else (self.dtype,)
        dtype = dtype or (float64 if float64 in types else float32)
        return self._with(array(dtype.code, result), self.shape, dtype)

    def __add__(self, other):
        return self._paired(other, operator.add)

    def __sub__(self, other):
        return self._paired(other, operator.sub)

    def __mul__(self, other):
        return self._paired(other, operator.mul)

    __radd__, __rmul__ = __add__, __mul__

    def __le__(self, other):
        return self._paired(other, operator.le, bool)

    def __ne__(self, other):
        return self._paired(other, operator.ne, bool)

    __hash__ = None

    def __invert__(self):
        return self._with(array("b", (not each for each in self.host())), self.shape, bool)

    def __matmul__(self, other):
        (m, k), (rows, n) = self.shape, other.shape
        if k != rows or self.device != other.device or self.dtype is not other.dtype:
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied, or their types differ")
        if self.device == "cuda" and self.dtype is float32:
            place = ctypes.c_size_t()
            call("standin_matmul", self.address(), other.address(), ctypes.byref(place), m, n, k)
            return Tensor(place.value, (m, n), float32, "cuda")
        left, right = self.host(), other.host()
        columns = [right[at::n] for at in range(n)]
        lines = (left[at * k : (at + 1) * k] for at in range(m))
        product = (sum(map(operator.mul, line, column)) for line in lines for column in columns)
        return self._with(array(self.dtype.code, product), (m, n), self.dtype)

    def sum(self):
        """Return the sum as a zero-dimensional tensor."""
        return Tensor(array("d", [sum(self.host())]), (), float64)

    def item(self):
        """Return the only element."""
        (found,) = self.host()
        return found

    def tolist(self):
        """Return the elements as a list, or a matrix as a list of rows."""
        data = list(self.host())
        if len(self.shape) != 2:
            return data
        columns = self.shape[1]
        return [data[at * columns : (at + 1) * columns] for at in range(self.shape[0])]

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return builtins.float(self.item())

    def __bool__(self):
        return builtins.bool(self.item())
