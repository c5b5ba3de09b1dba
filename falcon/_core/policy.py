"""`Policy`: what differs between backends in how one of their options is chosen."""

from __future__ import annotations

from dataclasses import dataclass

from .problem import Problem


@dataclass(frozen=True, slots=True)
class Policy:
    """When a backend's LCMAs are worth comparing, and what they must gain; `select` does the rest.

    Backends that compete for a problem have the same policy.

    Attributes
    ----------
    smallest : int
        With a size below, no LCMA has anything to gain: nothing is compared, nor measured.
    smallest_flops : float
        The same for 2MNK.
    smallest_block : int
        Least rows, columns and inner length of an LCMA's blocks.
    smallest_chunk : int
        The same of the blocks of a chunk, where a workspace limit cuts the problem.
    nested : bool
        Every scheme nested in Strassen's is a candidate; else only Strassen's is.
    nested_block : int
        How many times larger the blocks of nested schemes must be.
    least_gain : float
        The classical algorithm (of the last backend) stays unless it is slower by this factor:
        what predictions may err by.
    tie : float
        Predictions within this share of each other are a tie, which goes to less growth, then to
        fewer levels.
    common_model : bool
        The backend predicts by `falcon._core.model` and rounds as `Scheme.rms_growth` says, so that
        the model's bounds and the growth rule schemes out before the backend is asked.
    no_gain, too_little : str
        Why the classical algorithm stays; why a candidate that is faster is not the choice.
    """

    smallest: int
    smallest_flops: float
    smallest_block: int
    smallest_chunk: int
    nested: bool = True
    nested_block: int = 4
    least_gain: float = 1.03
    tie: float = 0.03
    common_model: bool = True
    no_gain: str = "no scheme is predicted to be faster"
    too_little: str = "faster by too little to be sure"

    def why_too_small(self, problem: Problem) -> str | None:
        """Return why no LCMA can pay at these sizes, if so."""
        if min(problem.M, problem.N, problem.K) < self.smallest:
            return f"a dimension is below {self.smallest}: too small for any LCMA"
        if problem.flops < self.smallest_flops:
            return f"2MNK is below {self.smallest_flops:.1e}: too small for any LCMA"
        return None


# Below these sizes no LCMA has ever paid and measuring the machine would cost more than it saves;
# and where falcon's classical kernel was predicted to gain 5 % there, NumPy's BLAS was up to 11 %
# faster (Zen 3).
SMALLEST_BLAS = 256
# Nor below this much work: at 600 and at 777 x 555 x 999 Strassen on falcon's own kernels ran at
# 0.93 of NumPy, at 1024 at 1.04.
SMALLEST_BLAS_FLOPS = 1.0e9

# Smaller blocks leave the products too small for any kernel to be fast; what another level saves
# is spent on blocks of less than four times that size. Predictions err by about 3 %.
_BLAS = Policy(SMALLEST_BLAS, SMALLEST_BLAS_FLOPS, smallest_block=64, smallest_chunk=64)
# NumPy's integer products run without BLAS, a hundred times slower: there LCMAs pay early.
_OTHER = Policy(96, 0.0, smallest_block=32, smallest_chunk=32)


def host_policy(problem: Problem) -> Policy:
    """Return the policy of the backends for host memory."""
    return _BLAS if problem.operand.has_blas else _OTHER
