/* What happens to a row of scores, for one dtype. simd/attention.c includes this for f32 and f64
 * with T (the element) and NAME(x) defined. */

/* Copies the row to qk_matmul_output if that output is requested at this stage. */
static void NAME(keep)(const attention_t *at, int64_t mode, const T *row, int64_t b, int64_t h,
                       int64_t i) {
  if (!at->qk.data || at->mode != mode) return;
  T *to = (T *)at->qk.data + b * at->qk.strides[0] + h * at->qk.strides[1] + i * at->qk.strides[2];
  memcpy(to, row, (size_t)at->qk.shape[3] * sizeof(T));
}

/* Applies scale, softcap, masks and softmax to row i of head h of batch entry b. */
static void NAME(row)(const attention_t *at, T *row, int64_t b, int64_t h, int64_t i) {
  int64_t count = at->k.shape[2];
  int64_t live = count;
  const T scale = (T)at->scale;
  const T cap = (T)at->softcap;
  const T *mask = (const T *)at->mask.data;
  for (int64_t j = 0; j < count; j++)
    row[j] *= scale;
  NAME(keep)(at, ATTENTION_QK_RAW, row, b, h, i);
  if (cap > 0)
    for (int64_t j = 0; j < count; j++)
      row[j] = cap * TANH(row[j] / cap);
  NAME(keep)(at, ATTENTION_QK_CAPPED, row, b, h, i);
  if (at->causal && at->past + i + 1 < live) live = at->past + i + 1;
  if (at->nonpad && at->nonpad[b] < live) live = at->nonpad[b] < 0 ? 0 : at->nonpad[b];
  if (mask) {
    int64_t step = at->mask.strides[3];
    mask += b * at->mask.strides[0] + h * at->mask.strides[1] + i * at->mask.strides[2];
    if (at->mask_width < live) live = at->mask_width;
    if (at->mask_is_bool)
      for (int64_t j = 0; j < live; j++)
        row[j] = mask[j * step] != 0 ? row[j] : -(T)INFINITY;
    else
      for (int64_t j = 0; j < live; j++)
        row[j] += mask[j * step];
  }
  for (int64_t j = live; j < count; j++)
    row[j] = -(T)INFINITY;
  NAME(keep)(at, ATTENTION_QK_MASKED, row, b, h, i);
  NAME(softmax)(row, live);
  for (int64_t j = live; j < count; j++)
    row[j] = live ? 0 : (T)NAN;
  if (at->nan_is_zero && count && row[0] != row[0]) memset(row, 0, (size_t)count * sizeof(T));
  NAME(keep)(at, ATTENTION_QK_SOFTMAX, row, b, h, i);
}
#undef T
#undef NAME
