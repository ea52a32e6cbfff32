/* text_ops.c: the operator library `text`: the operators that a sentence encoder needs around its
 * network, so that the model takes text and returns a vector.
 *
 * It is built outside the tree against tenon/op.h and utf8proc alone: tenon build text_ops.c
 * wordpiece.c -lutf8proc. Tenon calls it through the table at the end. Rows are independent, and no
 * two threads write to the same row. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenon/op.h>

#include "wordpiece.h"

/* wordpiece */

enum {
  ATTR_VOCAB,
  ATTR_MAX_LENGTH,
  ATTR_LOWER,
};
/* [CLS] and [SEP] are always present. */
enum {
  LENGTH_MIN = 2,
  LENGTH_MAX = 1 << 20,
};

static tenon_status_t wordpiece_validate(tenon_node_t *node) {
  int64_t max_length = node->attrs[ATTR_MAX_LENGTH].as.i;
  if (max_length >= LENGTH_MIN && max_length <= LENGTH_MAX) return TENON_OK;
  return tenon_fail(node, TENON_INVALID,
                    "max_length is %lld, but must be from %d ([CLS] and [SEP]) to %d",
                    (long long)max_length, LENGTH_MIN, LENGTH_MAX);
}

/* The state is the hashed vocabulary. It points into the attribute, which lives as long as the
 * state. */
static tenon_status_t wordpiece_state_create(tenon_node_t *node) {
  const tenon_value_t *vocab = &node->attrs[ATTR_VOCAB];
  wordpiece_t *pieces =
      wordpiece_create(vocab->as.s, vocab->count, node->attrs[ATTR_LOWER].as.i != 0);
  if (!pieces)
    return tenon_fail(node, TENON_MEMORY, "no memory for a vocabulary of %u bytes", vocab->count);
  char missing[64] = "";
  for (int i = WORDPIECE_UNK; i <= WORDPIECE_SEP; i++)
    if (wordpiece_special(pieces, i) < 0) strcat(strcat(missing, " "), wordpiece_special_names[i]);
  if (*missing) {
    free(pieces);
    return tenon_fail(node, TENON_INVALID,
                      "the vocabulary of %u bytes lacks%s; it is one word a line, as in vocab.txt",
                      vocab->count, missing);
  }
  node->state = pieces;
  return TENON_OK;
}

/* ids, mask: [texts, length of the longest text]. The workspace holds max_length numbers for each
 * text, followed by the counts. */
static tenon_status_t wordpiece_infer(tenon_infer_t *infer) {
  tenon_dim_t texts = infer->inputs[0]->dims[0];
  tenon_dim_t most = tenon_extent(infer->attrs[ATTR_MAX_LENGTH].as.i);
  tenon_dim_t length = tenon_dim(infer, TENON_DIM_BOUND, most, tenon_extent(LENGTH_MIN));
  for (int i = 0; i < 2; i++) {
    tenon_meta_t *out = infer->outputs[i];
    if (!out) continue;
    out->ndim = 2;
    out->dims[0] = texts;
    out->dims[1] = length;
  }
  tenon_dim_t row_bytes = tenon_extent((most.value + 1) * (int64_t)sizeof(int32_t));
  infer->workspace = tenon_dim(infer, TENON_DIM_MUL, texts, row_bytes);
  return TENON_OK;
}

static tenon_status_t wordpiece_part(tenon_call_t *call, void *workspace, int64_t begin,
                                     int64_t end) {
  const tenon_string_t *texts = call->inputs[0]->data;
  int32_t max_length = (int32_t)call->attrs[ATTR_MAX_LENGTH].as.i;
  int32_t *ids = workspace;
  int32_t *counts = ids + call->inputs[0]->shape[0] * max_length;
  for (int64_t i = begin; i < end; i++)
    counts[i] = wordpiece_encode(call->state, texts[i].data, texts[i].size, ids + i * max_length,
                                 max_length);
  return TENON_OK;
}

static tenon_status_t wordpiece_run(tenon_call_t *call) {
  int64_t texts = call->inputs[0]->shape[0];
  int64_t max_length = call->attrs[ATTR_MAX_LENGTH].as.i;
  TENON_TRY(call->host->parallel(call, texts, 1, wordpiece_part, call->workspace));
  const int32_t *ids = call->workspace;
  const int32_t *counts = ids + texts * max_length;
  int64_t shape[2] = {texts, LENGTH_MIN};
  for (int64_t i = 0; i < texts; i++)
    if (counts[i] > shape[1]) shape[1] = counts[i];
  for (uint32_t k = 0; k < 2; k++)
    if (call->outputs[k]) TENON_TRY(call->host->resize(call, k, 2, shape));
  int32_t pad = wordpiece_special(call->state, WORDPIECE_PAD);
  int64_t *out = call->outputs[0] ? call->outputs[0]->data : NULL;
  int64_t *mask = call->outputs[1] ? call->outputs[1]->data : NULL;
  for (int64_t i = 0, at = 0; i < texts; i++)
    for (int64_t j = 0; j < shape[1]; j++, at++) {
      bool used = j < counts[i];
      if (out) out[at] = used ? ids[i * max_length + j] : pad < 0 ? 0 : pad;
      if (mask) mask[at] = used;
    }
  return TENON_OK;
}

/* mean_pool */

/* A sum of weights below this one counts as this one, as in sentence-transformers: it protects
 * texts without a token. */
static const float least_weight = 1e-9f;
static const float least_norm = 1e-12f;

static tenon_status_t mean_pool_part(tenon_call_t *call, void *unused, int64_t begin, int64_t end) {
  const int64_t *shape = call->inputs[0]->shape;
  const int64_t length = shape[1];
  const int64_t width = shape[2];
  const float *hidden = (const float *)call->inputs[0]->data + begin * length * width;
  const int64_t *mask = (const int64_t *)call->inputs[1]->data + begin * length;
  float *restrict out = (float *)call->outputs[0]->data + begin * width;
  (void)unused;
  for (int64_t row = begin; row < end; row++, out += width) {
    float weight = 0;
    float squares = 0;
    memset(out, 0, (size_t)width * sizeof *out);
    for (int64_t i = 0; i < length; i++, hidden += width) {
      float w = (float)*mask++;
      weight += w;
      /* Padding may hold anything, so it is not read. */
      if (w != 0)
        for (int64_t j = 0; j < width; j++)
          out[j] += w * hidden[j];
    }
    float scale = 1 / fmaxf(weight, least_weight);
    for (int64_t j = 0; j < width; j++)
      out[j] *= scale;
    if (!call->attrs[0].as.i) continue;
    for (int64_t j = 0; j < width; j++)
      squares += out[j] * out[j];
    scale = 1 / fmaxf(sqrtf(squares), least_norm);
    for (int64_t j = 0; j < width; j++)
      out[j] *= scale;
  }
  return TENON_OK;
}

static tenon_status_t mean_pool_run(tenon_call_t *call) {
  const int64_t *shape = call->inputs[0]->shape;
  /* 16384 elements are enough work for one more thread. */
  int64_t row = shape[1] * shape[2];
  return call->host->parallel(call, shape[0], row < 16384 ? 16384 / (row + 1) + 1 : 1,
                              mean_pool_part, NULL);
}

/* the library */

/* clang-format off */
TENON_LIBRARY(text, "1.0.0",
  TENON_ABOUT("author: Tenon's examples\nlicence: as Tenon"),
  TENON_OP("wordpiece(Tensor text, *, str vocab, int max_length=256, bool lower=True) -> (Tensor "
           "ids, Tensor mask)",
    TENON_DOC("Token numbers of texts, as BERT's uncased models expect them.\n"
              "vocab is one word a line. ids and mask are [texts, length of the longest]; padding "
              "is 0 in the mask."),
    TENON_TYPES("text: string; ids = i64; mask = i64"),
    TENON_SHAPES("text: [n]"),
    TENON_TRAITS(TENON_PURE),
    TENON_VALIDATE(wordpiece_validate),
    TENON_STATE(wordpiece_state_create, free),
    TENON_INFER(wordpiece_infer),
    TENON_KERNEL("cpu", wordpiece_run)),
  TENON_OP("mean_pool(Tensor hidden, Tensor mask, *, bool normalize=True) -> Tensor",
    TENON_DOC("Mean of the vectors of a text, weighted by the mask; scaled to length 1 if "
              "normalize."),
    TENON_TYPES("hidden: f32; mask: i64; out = hidden"),
    TENON_SHAPES("hidden: [n, length, width]; mask: [n, length]; out: [n, width]"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", mean_pool_run)))
/* clang-format on */
