/* quantise.c - the passes before and after a product of 8-bit integers that stands for one of floats, and over a C of
 * which some entries are compared.
 *
 * Threads claim strips of lines, each of which is one call of the kernel.
 */
#include "engine.h"
#include "team.h"
#include <fenv.h>

/* Elements that pay for a further thread. */
static const double elements_per_thread = 1 << 16;
/* Elements of a strip of lines that are contiguous along K, and of rows of C. */
enum { STRIP = 1 << 14 };

typedef struct {
    const falcon_kernel *kern;
    const falcon_bytes *bytes;
    const falcon_products *products;
    const falcon_peaks *peaks;
    ptrdiff_t strip;
} fl_bytes_job;

static void do_lines(void *job, ptrdiff_t first, ptrdiff_t end) {
    const fl_bytes_job *j = job;
    for (ptrdiff_t u = first; u < end; u++)
        j->kern->quantise(j->bytes, u * j->strip, FL_MIN(j->strip, j->bytes->lines - u * j->strip));
}

static void do_rows(void *job, ptrdiff_t first, ptrdiff_t end) {
    const fl_bytes_job *j = job;
    for (ptrdiff_t u = first; u < end; u++)
        j->kern->from_bytes(j->products, u * j->strip, FL_MIN(j->strip, j->products->rows - u * j->strip));
}

static void do_peaks(void *job, ptrdiff_t first, ptrdiff_t end) {
    const fl_bytes_job *j = job;
    for (ptrdiff_t u = first; u < end; u++)
        j->kern->peaks(j->peaks, u * j->strip, FL_MIN(j->strip, j->peaks->rows - u * j->strip));
}

void falcon_quantise(const falcon_kernel *kern, const falcon_bytes *bytes, int threads) {
    const int mode = fegetround();
    fesetround(FE_TONEAREST);
    const ptrdiff_t few = FL_MAX(1, STRIP / FL_MAX(bytes->len, 1));
    fl_bytes_job j = {.kern = kern, .bytes = bytes, .strip = bytes->k_stride == 1 ? few : FALCON_BYTE_LINES};
    fl_team_each(do_lines, &j, fl_div_up(bytes->lines, j.strip), 1,
                 fl_team_size((double)bytes->lines * (double)bytes->len / elements_per_thread, threads));
    fesetround(mode);
}

void falcon_from_bytes(const falcon_kernel *kern, const falcon_products *products, int threads) {
    fl_bytes_job j = {.kern = kern, .products = products, .strip = FL_MAX(1, STRIP / FL_MAX(products->columns, 1))};
    fl_team_each(do_rows, &j, fl_div_up(products->rows, j.strip), 1,
                 fl_team_size((double)products->rows * (double)products->columns / elements_per_thread, threads));
}

void falcon_peaks_of(const falcon_kernel *kern, const falcon_peaks *peaks, int threads) {
    fl_bytes_job j = {.kern = kern, .peaks = peaks, .strip = FL_MAX(1, STRIP / FL_MAX(peaks->columns, 1))};
    fl_team_each(do_peaks, &j, fl_div_up(peaks->rows, j.strip), 1,
                 fl_team_size((double)peaks->rows * (double)peaks->columns / elements_per_thread, threads));
}
