/* Least squares on the Brent equations over the reals, by steps in single or in double precision.
 *
 * The unknowns are the factors U, V, W one below the other, a column per term. A step solves
 * (J^T J + diag(weight + damping)) d = -slope to a given accuracy by conjugate gradients. J^T J is
 * made of Gram matrices of the factors, R x R each, so that a product with it costs 3 N R^2
 * multiplications for N rows (L. Sorber, M. Van Barel and L. De Lathauwer, "Optimization-based
 * algorithms for tensor decompositions", 2013); the preconditioner is its blocks within a row.
 */
#ifndef FALCON_FIT_H
#define FALCON_FIT_H

typedef struct {
    int rows[3], rank;    /* rows of U, V and W, and their columns */
    const double *target; /* what the terms are to add up to, (rows[0], rows[1], rows[2]) */
    const double *weight; /* weight * (x - centre)^2 is added to the error; like x */
    const double *centre; /* like x */
    const double *free;   /* like x: 1, or 0 for an entry that stays as it is */
    int steps;            /* at most */
    double goal;          /* error that is enough */
    double stall;         /* stop where five steps, after ten, gain less than this share; 0: never */
    double accuracy;      /* relative residual at which a step counts as solved */
    int iterations;       /* of conjugate gradients, at most */
    double least_damping; /* Levenberg and Marquardt's weight of a step, at least */
} fit_problem;

/* Go downhill from x, of shape (sum of rows, rank). Return the error, without the weights' part, or
 * -1 where there is no memory; update x and the damping. */
double fit_relax_single(const fit_problem *problem, double *x, double *damping);
double fit_relax_double(const fit_problem *problem, double *x, double *damping);

#endif
