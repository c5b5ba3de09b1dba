"""A plugin for pytest: no pools of memory, so that compute-sanitizer sees where allocations end."""

import os


def pytest_configure():
    import cupy

    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
