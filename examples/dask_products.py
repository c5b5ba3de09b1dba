"""Products of Dask arrays: in this process, on a cluster of processes, and from files.

python examples/dask_products.py
"""

import dask
import dask.array as da
from distributed import Client, LocalCluster

import falcon


def main() -> None:
    """Multiply chunk by chunk, look at the plan, and check the product."""
    x = da.random.default_rng(0).standard_normal((1536, 1024), chunks=512).astype("float32")

    with dask.config.set(scheduler="threads"):  # no cluster is needed
        gram = falcon.dask.matmul(x.T, x)  # lazy
        print("trace", float(da.trace(gram).compute()))

    workers = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**workers) as cluster, Client(cluster):
        product = falcon.dask.matmul(x, x.T)
        print(falcon.dask.plan(x, x.T).explain())
        print(falcon.dask.verify(x, x.T, product))
        with falcon.dask.placed(x, x.T, product) as moved:
            product = product.compute()
        print(f"{moved / 2**20:.1f} MiB moved between the workers")


if __name__ == "__main__":
    main()
