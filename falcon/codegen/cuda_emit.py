"""Emit combination programs as CUDA C++: the part of a kernel that differs per scheme.

The kernels are the `.cu` files of `falcon/_gpu/kernels`. Each includes one generated struct with
the coefficients; it calls the kernel's `load` for its inputs and `store` for its sums::

    template <int W> struct Sums {
        typedef Vec<S, W> X;
        template <class Load, class Store>
        static FALCON_INLINE void run(const Load &load, Store &store) {
            const X r0 = load(0, 0);         // Combine A and B: block (i, l); Combine H: plane p
            const X r3 = load(1, 1);
            X r4 = r0 + r3;
            store(0, 0, 1, r4);              // Combine A and B: block, position in chain, its
            ...                              // length; Combine H: block (i, j) of C

Each load comes just before the first use of its value, between the additions. Element types are
rows of the table `falcon._core.dtypes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from falcon.schemes import Scheme

from .cuda_plan import THREADS, Fit, fit, products
from .program import Instruction, Op

FACTORS = ("u", "v")


def combine_in(
    scheme: Scheme, factor: str, operand: Any, name: str, centred: bool = False
) -> tuple[str, Fit]:
    """Return macros and `Sums` of Combine A ("u") or Combine B ("v"), for combine_in.cu.

    `factor`: {"u", "v"}.
    `operand`: of the matrix; sums are computed in its accumulator type, written as `multiplied`.
    `name`: of the kernel.
    `centred`: means are subtracted from A.
    """
    matrix = (scheme.U, scheme.V)[FACTORS.index(factor)]
    p, q = matrix.shape[1:]
    sums, splits = operand.accumulator, operand.splits
    found = fit(matrix.reshape(scheme.rank, -1), operand.itemsize, sums.itemsize)
    places = products(scheme).places

    def store(output: int, value: str) -> str:
        place = places[output]
        negated = factor == "u" and place.sign < 0
        sign = "-" if negated else ""
        return f"store({place.block}, {place.position}, {place.length}, {sign}{value});"

    macros: dict[str, object] = {"T": operand.cuda, "S": sums.cuda, "P": p, "Q": q}
    macros |= {"O": operand.multiplied.cuda, "PARTS": splits}
    macros["CENTRED"] = int(factor == "u" and centred)
    macros["LINE"], macros["STEP"] = ("i", "j") if factor == "u" else ("j", "i")
    macros["PLACE"] = "part" if factor == "u" else f"{splits} - 1 - part"
    load = lambda slot: "load({}, {})".format(*divmod(slot, q))  # noqa: E731
    return _unit(name, macros, found, load, store), found


def wgmma(columns: int) -> str:
    """Return a macro: a warpgroup's product of 64 rows by `columns`, of 16 float16 along K.

    Its arguments are an array of sums, descriptors of A and B, whether it adds to the sums, and
    whether neighbours in memory are lines, of A and of B.
    """
    sums = columns // 2  # of a thread
    registers = ", ".join(f"%{x}" for x in range(sums))
    outputs = ", ".join(f'"+f"((sums)[{x}])' for x in range(sums))
    a, b, keep, lines_a, lines_b = (f"%{sums + x}" for x in range(5))
    return (
        "#define FALCON_WGMMA(sums, a, b, keep, lines_a, lines_b) "
        f'asm volatile("{{.reg .pred p; setp.ne.b32 p, {keep}, 0;" '
        f'"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 " '
        f'"{{{registers}}}, {a}, {b}, p, 1, 1, {lines_a}, {lines_b};}}" '
        f': {outputs} : "l"(a), "l"(b), "r"(keep), "n"(lines_a), "n"(lines_b))\n'
    )


def combine_out(scheme: Scheme, sums: Any, dtype: Any, name: str) -> tuple[str, Fit]:
    """Return macros and `Sums` of Combine H, for combine_out.cu.

    `sums`: of H and of its sums.
    `dtype`: of C.
    `name`: of the kernel.
    """
    found = fit(products(scheme).rows, sums.itemsize, sums.itemsize)
    n = scheme.n
    macros: dict[str, object] = {"T": dtype.cuda, "S": sums.cuda, "P": scheme.m, "Q": n}

    def store(output: int, value: str) -> str:
        i, j = divmod(output, n)
        return f"store({i}, {j}, {value});"

    return _unit(name, macros, found, "load({})".format, store), found


def _unit(
    name: str,
    macros: dict[str, object],
    found: Fit,
    load: Callable[[int], str],
    store: Callable[[int, str], str],
) -> str:
    """Return the macros that the template reads, and the generated struct."""
    settings = {"NAME": name, "SUMS": f"{name}_sums", **macros}
    settings |= {"WIDTH": found.width, "BLOCKS": found.blocks, "THREADS": THREADS}
    lines = [f"#define FALCON_{key} {value}" for key, value in settings.items()]
    lines += [
        "namespace FALCON_SUMS {",
        f"typedef {macros['S']} S;",
        "template <int W> struct Sums {",
        "    typedef Vec<S, W> X;",
        "    template <class Load, class Store>",
        "    static FALCON_INLINE void run(const Load &load, Store &store) {",
    ]
    program, known = found.program, set()  # the slots that have a value
    last_write = {x.dst: at for at, x in enumerate(program.instructions)}
    body = []
    for at, x in enumerate(program.instructions):
        for slot in (x.x, x.y):
            if 0 <= slot < program.n_inputs and slot not in known:
                known.add(slot)
                body.append(f"const X r{slot} = {load(slot)};")
        body.append(f"{'' if x.dst in known else 'X '}r{x.dst} = {_expression(x)};")
        known.add(x.dst)
        if x.dst >= program.first_output and last_write[x.dst] == at:
            body.append(store(x.dst - program.first_output, f"r{x.dst}"))
    lines += [f"        {line}" for line in body]
    return "\n".join([*lines, "    }", "};", "}", ""])


def _expression(x: Instruction) -> str:
    if x.op is Op.SCALE:
        if abs(x.coefficient) == 1:
            return f"{'-' if x.coefficient < 0 else ''}r{x.x}"
        return f"S({float(x.coefficient)!r}) * r{x.x}"
    return f"r{x.x} {'+' if x.op is Op.ADD else '-'} r{x.y}"
