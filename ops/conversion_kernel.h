/* How cast loads and stores the elements of one dtype. simd/conversion.c includes this once per
 * dtype with T (the element), NAME(x), FORM (the member of block_t into which elements are loaded),
 * WIDE (its type), DECODE(x) (the wide number of an element) and ENCODE(x) (the element for a wide
 * number) defined. */

static tenon_status_t NAME(load)(const job_t *job, int64_t begin, int64_t count, block_t *block) {
  const T *xs = (const T *)job->x + begin;
  for (int64_t i = 0; i < count; i++) {
    const T x = xs[i];
    block->FORM[i] = (WIDE)(DECODE(x));
  }
  return TENON_OK;
}

static tenon_status_t NAME(store)(const job_t *job, int64_t begin, int64_t count,
                                  const block_t *block) {
  T *out = (T *)job->out + begin;
  for (int64_t i = 0; i < count; i++)
    out[i] = (T)(ENCODE(block->FORM[i]));
  return TENON_OK;
}
#undef T
#undef NAME
#undef FORM
#undef WIDE
#undef DECODE
#undef ENCODE
