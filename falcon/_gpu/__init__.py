"""Backend "gpu" (CuPy RawKernel): not part of this version; `falcon.show_config` says so."""
