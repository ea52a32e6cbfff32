/* Panels for products with few rows; see panels.h. Calls the kernels of simd/panel.c.
 * Invariant: the layout depends on the instruction set alone, which a process chooses once. */
#include "panels.h"
#include "capability.h"

static const panel_kernels_t *kernels_of(tenon_dtype_t dtype) {
  const int is_double = dtype.bits == 64;
#if defined(__x86_64__) || defined(_M_X64)
  static const panel_kernels_t *const all[] = {core_panels, core_panels_avx2, core_panels_avx512};
  return &all[core_capability()][is_double];
#else
  return &core_panels[is_double];
#endif
}

uint64_t core_panels_size(const panels_t *panels) {
  const int64_t width = kernels_of(panels->dtype)->width;
  const uint64_t count = (uint64_t)((panels->n + width - 1) / width);
  const uint64_t line = (uint64_t)width * panels->dtype.bits / 8;
  if (panels->k && count > (INT64_MAX / line) / (uint64_t)panels->k) return 0;
  return count * line * (uint64_t)panels->k;
}

void core_panels_pack(const panels_t *panels, const void *matrix, int64_t column, int64_t element) {
  const panel_kernels_t *kernels = kernels_of(panels->dtype);
  for (int64_t first = 0; first < panels->n; first += kernels->width)
    kernels->pack(panels, matrix, column, element, first);
}

typedef struct panel_job_t {
  const panels_t *panels;
  const panel_kernels_t *kernels;
  const void *x;
  int64_t m;
  void *out;
  int is_backwards;
} panel_job_t;

static tenon_status_t multiply_some(tenon_call_t *call, void *argument, int64_t begin,
                                    int64_t end) {
  const panel_job_t *job = (const panel_job_t *)argument;
  (void)call;
  for (int64_t i = 0; i < end - begin; i++) {
    const int64_t panel = job->is_backwards ? end - 1 - i : begin + i;
    job->kernels->multiply(job->panels, job->x, job->m, panel * job->kernels->width, job->out);
  }
  return TENON_OK;
}

tenon_status_t core_panels_multiply(tenon_call_t *call, const panels_t *panels, const void *x,
                                    int64_t m, void *out, int is_backwards) {
  enum { WORK = 1 << 17 }; /* products of a part, at least */
  panel_job_t job = {panels, kernels_of(panels->dtype), x, m, out, is_backwards};
  const int64_t width = job.kernels->width;
  const int64_t count = (panels->n + width - 1) / width;
  const int64_t work = m * panels->k * width + 1;
  if (count * work <= WORK) return multiply_some(call, &job, 0, count);
  return call->host->parallel(call, count, 1 + WORK / work, multiply_some, &job);
}
