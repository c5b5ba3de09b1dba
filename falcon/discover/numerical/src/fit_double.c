/* Least squares in double precision: see fit.h. */
#define real double
#define RELAX fit_relax_double
#include "fit_steps.h"
