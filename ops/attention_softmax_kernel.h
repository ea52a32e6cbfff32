/* The softmax of a row of scores for one dtype. simd/attention.c includes this for f32 and f64 with
 * T (the element) and NAME(x) defined. LANES maxima and sums are computed side by side, which
 * compilers vectorise. */

static void NAME(softmax)(T *row, int64_t count) {
  T most[LANES];
  T sum[LANES];
  int64_t whole = count / LANES * LANES;
  int lanes = whole ? LANES : 1;
  for (int l = 0; l < lanes; l++) {
    most[l] = -(T)INFINITY;
    sum[l] = 0;
  }
  for (int64_t j = 0; j < whole; j += LANES)
    for (int l = 0; l < LANES; l++)
      most[l] = GREATEST(row[j + l], most[l]);
  for (int64_t j = whole; j < count; j++)
    most[0] = GREATEST(row[j], most[0]);
  for (int half = lanes / 2; half; half /= 2)
    for (int l = 0; l < half; l++)
      most[l] = GREATEST(most[l + half], most[l]);
  for (int64_t j = 0; j < count; j++)
    row[j] = EXP_DOWN(row[j] - most[0]);
  for (int64_t j = 0; j < whole; j += LANES)
    for (int l = 0; l < LANES; l++)
      sum[l] += row[j + l];
  for (int64_t j = whole; j < count; j++)
    sum[0] += row[j];
  for (int half = lanes / 2; half; half /= 2)
    for (int l = 0; l < half; l++)
      sum[l] += sum[l + half];
  for (int64_t j = 0; j < count; j++)
    row[j] /= sum[0];
}
#undef T
#undef NAME
