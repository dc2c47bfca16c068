"""What the rungs use of each API, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.probe import cuda, cuda_device, hip, hip_device
from rocenv.probe.device import Blas, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.probe.device import BlasCalls, RuntimeCalls
    from rocenv.probe.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """How programs of one kind reach the GPU."""

    role: str  # of the library that allocates and launches
    calls: RuntimeCalls
    blas_role: str
    blas_calls: BlasCalls
    open_device: Callable[[Session], str]  # make a GPU current and describe it
    kernel: Callable[[Session], bytes]  # the image that holds gemm.KERNEL
    kernel_name: Callable[[Session], str]


BACKENDS = {
    "hip": Backend(
        role="hip",
        calls=hip.RUNTIME,
        blas_role="rocblas",
        blas_calls=hip.BLAS,
        open_device=hip_device.open_device,
        kernel=lambda session: session.code_object.read_bytes(),
        kernel_name=lambda session: session.code_object.name,
    ),
    "cuda": Backend(
        role="nvcuda",
        calls=cuda.RUNTIME,
        blas_role="cublas",
        blas_calls=cuda.BLAS,
        open_device=cuda_device.open_device,
        kernel=lambda _session: cuda.KERNEL,
        kernel_name=lambda _session: "PTX",
    ),
}


def backend(session: Session) -> Backend:
    """Return what the session's API is made of."""
    return BACKENDS[session.task.runtime]


def opened(session: Session) -> Runtime:
    """Return the API with a device made current; raise NoDevice or Failure."""
    chosen = backend(session)
    chosen.open_device(session)
    return Runtime(session.library(chosen.role), chosen.calls)


def opened_blas(session: Session) -> Blas:
    """Return the BLAS, whose handle the caller opens with `with`."""
    chosen = backend(session)
    return Blas(session.library(chosen.blas_role), chosen.blas_calls)
