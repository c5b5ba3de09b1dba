/* Least squares in single precision: see fit.h. */
#define real float
#define RELAX fit_relax_single
#include "fit_steps.h"
