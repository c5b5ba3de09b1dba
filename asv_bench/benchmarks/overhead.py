"""What falcon costs besides multiplying: its import, planning, first and smallest products."""

import sys
from pathlib import Path

import numpy as np

import falcon

sys.path.append(str(Path(__file__).parents[2] / "studies"))
from first_call import measure


class Planning:
    """Overhead of deciding, without multiplying."""

    def setup(self):
        self.a = np.ones((8, 8))
        falcon.plan((2048, 2048), (2048, 2048), "float32")
        self.size = 1000

    def time_cached_plan(self):
        falcon.plan((2048, 2048), (2048, 2048), "float32")

    def time_fresh_plan(self):
        self.size += 1
        falcon.plan((self.size, 1000), (1000, 1000), "float32")

    def time_smallest_call(self):
        falcon.gemm(self.a, self.a)


class Accelerated:
    """``a @ b`` as it stands, and with `falcon.accelerate`."""

    params = ([8, 64, 256, 2048], [False, True])
    param_names = ("size", "accelerated")

    def setup(self, size, accelerated):
        self.a = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
        falcon.accelerate(accelerated, quiet=True)
        self.a @ self.a

    def teardown(self, size, accelerated):
        falcon.accelerate(False)

    def time_product(self, size, accelerated):
        self.a @ self.a


class FirstCall:
    """The first large product of a process over the next ones, in milliseconds."""

    def setup_cache(self):
        return measure(1500, processes=5)

    def track_fresh_machine(self, found):
        return found["fresh machine: first call minus the next, ms"]

    def track_later_process(self, found):
        return found["later process: first call minus the next, ms"]

    track_fresh_machine.unit = track_later_process.unit = "ms"


class Importing:
    """The import in a fresh process that has imported NumPy already."""

    def timeraw_import(self):
        return "import falcon", "import numpy, numpy.random"
