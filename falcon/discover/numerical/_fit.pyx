# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""Binding of src/fit.h: least squares on the Brent equations over the reals, without the GIL."""

import numpy as np


cdef extern from "fit.h" nogil:
    ctypedef struct fit_problem:
        int rows[3]
        int rank
        const double *target
        const double *weight
        const double *centre
        const double *free
        int steps
        double goal
        double stall
        double accuracy
        int iterations
        double least_damping
    double fit_relax_single(const fit_problem *, double *, double *)
    double fit_relax_double(const fit_problem *, double *, double *)


def relax(target, x, weight, centre, moving, *, bint single, int steps, double damping, double goal,
          double stall, double accuracy, int iterations, double least_damping):
    """Make Levenberg-Marquardt steps: see fit.h.

    Parameters
    ----------
    target : array_like, shape (p, q, s)
    x, weight, centre, moving : array_like, shape (p + q + s, R)

    Returns
    -------
    error : float
    x : ndarray of float64
    damping : float

    Raises
    ------
    ValueError
        Shapes do not fit.
    """
    cdef const double[:, :, ::1] wanted = np.ascontiguousarray(target, float)
    cdef const double[:, ::1] weights = np.ascontiguousarray(weight, float)
    cdef const double[:, ::1] centres = np.ascontiguousarray(centre, float)
    cdef const double[:, ::1] movable = np.ascontiguousarray(moving, float)
    made = np.array(x, float, order="C")
    cdef double[:, ::1] view = made
    cdef fit_problem problem
    cdef double error
    cdef int mode
    expected = (sum(np.shape(target)), made.shape[1])
    if 0 in np.shape(target):
        raise ValueError(f"target has shape {np.shape(target)}; expected no zeros")
    for name, array in (("x", x), ("weight", weight), ("centre", centre), ("moving", moving)):
        if np.shape(array) != expected or 0 in expected:
            raise ValueError(f"{name} has shape {np.shape(array)}; expected {expected}, not empty")
    for mode in range(3):
        problem.rows[mode] = wanted.shape[mode]
    problem.rank = view.shape[1]
    problem.target, problem.weight = &wanted[0, 0, 0], &weights[0, 0]
    problem.centre, problem.free = &centres[0, 0], &movable[0, 0]
    problem.steps, problem.goal, problem.stall = steps, goal, stall
    problem.accuracy, problem.iterations = accuracy, iterations
    problem.least_damping = least_damping
    with nogil:
        if single:
            error = fit_relax_single(&problem, &view[0, 0], &damping)
        else:
            error = fit_relax_double(&problem, &view[0, 0], &damping)
    if error < 0:
        raise MemoryError
    return error, made, damping
