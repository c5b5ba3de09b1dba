"""`release_workspace`: the memory that backends keep between calls."""

from falcon._backends import BACKENDS, device_backend
from falcon._core import runner


def release_workspace() -> None:
    """Free the workspaces that are kept between calls.

    Notes
    -----
    On the CPU falcon keeps one workspace, because the first use of new memory is slow. It is at
    most 512 MiB (1/32 of the memory if that is less; up to 1/16 where that saves passes; more after
    a call whose ``workspace_limit`` allowed it), and another for products modulo p;
    `falcon.show_config` prints their sizes. On a GPU it keeps the workspaces of calls that were
    captured into a graph: release them when the graphs are no longer used. Other GPU workspaces
    return to CuPy's pool after every call (``cupy.get_default_memory_pool().free_all_blocks()``
    frees them).

    Examples
    --------
    >>> import falcon
    >>> falcon.release_workspace()
    """
    is_loaded = device_backend.cache_info().currsize > 0  # else it keeps nothing
    for backend in (*BACKENDS.values(), *([device_backend()] if is_loaded else [])):
        backend.release_workspace()
    runner.release()
