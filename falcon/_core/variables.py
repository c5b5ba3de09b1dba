"""Environment variables that set no option."""

# What they do: a table of the documentation.
OTHER_VARIABLES = {
    "FALCON_ACCELERATE": "Set by `python -m falcon run` for the processes that the program starts.",
    "FALCON_BUILD": "When falcon is built: require or skip the compiled kernels.",
    "FALCON_CACHE_DIR": "The folder of cached files; else falcon-gemm in the user's cache folder.",
    "FALCON_ISA": "The instruction set of falcon's own kernels, such as avx2; read once.",
    "FALCON_OVERSUBSCRIBE": "Set to 1, allows more threads than CPUs, for tests; read once.",
    "FALCON_PROFILE": "The file of the machine profile, used whatever machine it was made on.",
}
