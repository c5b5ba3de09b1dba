"""The arguments of ``python -m falcon discover``."""

from __future__ import annotations

import argparse


def add_discover(parser: argparse.ArgumentParser) -> None:
    """Add the arguments; `cli.py` acts on them."""
    parser.add_argument("sizes", nargs="+", metavar="m k n", help="3 4 5, 3,4,5 or 3x4x5")
    parser.add_argument("--rank", type=int, help="stop at a scheme of this rank; with "
                        "--objective: improve schemes of this rank")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=10.0,
                        help="CPU time per worker (default 10)")  # fmt: skip
    parser.add_argument("--flips", type=int, help="instead of --minutes: flips, repeatable")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default 0)")
    parser.add_argument("--objective", choices=("nnz", "growth", "additions"),
                        help="improve schemes at equal rank: fewer non-zeros, less error growth, "
                               "or fewer additions")  # fmt: skip
    parser.add_argument("--ring", default="both",
                        choices=("both", "ternary", "mod2", "symmetric", "families", "reals"),
                        help="walks over {-1, 0, 1} (ternary), modulo 2 (mod2), or both; "
                               "symmetric: Z3-symmetric walks, for cubes; families: modulo 2, over "
                               "many families of this and nearby formats; reals: from real schemes "
                               "of --rank")  # fmt: skip
    parser.add_argument("--scratch", action="store_true",
                        help="start from the classical algorithm alone")  # fmt: skip
    parser.add_argument("--threads", type=int, help="workers (default: all CPUs)")
    parser.add_argument("--out", default="discovered", metavar="FOLDER",
                        help="folder of finds and checkpoint (default ./discovered)")  # fmt: skip
