/* Which outputs may have the memory of an input: new contents of inputs that are written to, and
 * those that TENON_REUSE names. Loops of pointwise operators could overwrite their inputs as well,
 * but a call that checks this takes longer than the memory costs. ONNX Runtime asks by functions
 * without a context, so each different answer has a function of its own; there are few. */
#include <stdlib.h>
#include <string.h>

#include "operator.h"

enum {
  ANSWERS_MOST = 64,
  PAIRS_MOST = 16,
};

typedef struct answer_t {
  size_t count;
  int inputs[PAIRS_MOST];
  int outputs[PAIRS_MOST];
} answer_t;

static answer_t answers[ANSWERS_MOST]; /* the first is empty */
static size_t answer_count = 1;

static size_t give_answer(size_t number, int **out_inputs, int **out_outputs) {
  const answer_t *answer = &answers[number];
  const size_t size = answer->count * sizeof(int);
  *out_inputs = *out_outputs = NULL;
  if (!size) return 0;
  *out_inputs = malloc(size);
  *out_outputs = malloc(size);
  if (!*out_inputs || !*out_outputs) {
    free(*out_inputs);
    free(*out_outputs);
    *out_inputs = *out_outputs = NULL;
    return 0;
  }
  memcpy(*out_inputs, answer->inputs, size);
  memcpy(*out_outputs, answer->outputs, size);
  return answer->count;
}

static void release_answer(int *inputs, int *outputs) {
  free(inputs);
  free(outputs);
}

/* clang-format off: one digit of the number is added in each line */
/* clang-format off */
#define ANSWER(n)                                                                                  \
  static size_t give_##n(int **inputs, int **outputs) { return give_answer(0##n, inputs, outputs); }
#define NAME(n) give_##n,
#define X8(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define X64(X) X8(X, 0) X8(X, 1) X8(X, 2) X8(X, 3) X8(X, 4) X8(X, 5) X8(X, 6) X8(X, 7)
X64(ANSWER)
static size_t (*const functions[])(int **, int **) = {X64(NAME)};
/* clang-format on */
_Static_assert(sizeof functions / sizeof *functions == ANSWERS_MOST, "one for each answer");

static void add_pair(answer_t *answer, int32_t input, int32_t output) {
  if (answer->count == PAIRS_MOST) return;
  answer->inputs[answer->count] = input;
  answer->outputs[answer->count++] = output;
}

static int32_t find_input(const operator_t *self, const char *name, size_t size) {
  for (int32_t i = 0; i < self->in.count; i++)
    if (strlen(self->inputs[i].name) == size && memcmp(self->inputs[i].name, name, size) == 0)
      return i;
  return -1;
}

/* Reads TENON_REUSE, "out: x; b: y", for one result. Returns -1 if it is not named. */
static int32_t find_reused(const operator_t *self, const char *reuse, const char *result) {
  static const char spaces[] = " \t\n";
  for (const char *at = reuse; at && *at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
    at += strspn(at, spaces);
    const size_t size = strcspn(at, " \t\n:");
    const char *colon = strchr(at, ':');
    if (!colon || size != strlen(result) || memcmp(at, result, size) != 0) continue;
    const char *name = colon + 1 + strspn(colon + 1, spaces);
    return find_input(self, name, strcspn(name, " \t\n;"));
  }
  return -1;
}

static void add_pairs(const operator_t *self, const tenon_op_info_t *info, answer_t *answer) {
  for (int32_t o = 0; o < self->out.count && o != self->out.list; o++) {
    const int32_t written = self->written[o];
    const char *name = o < self->output_count ? self->outputs[o].name : "";
    const int32_t reused = info->reuse ? find_reused(self, info->reuse, name) : -1;
    if (written >= 0 && written < self->in.count)
      add_pair(answer, written, o);
    else if (reused >= 0)
      add_pair(answer, reused, o);
  }
}

void inplace_set(const operator_t *self, OrtCustomOp *custom) {
  tenon_op_info_t info = {.size = sizeof info};
  answer_t answer = {0};
  size_t number = 0;
  host.tenon_op_info(self->op, &info);
  add_pairs(self, &info, &answer);
  while (number < answer_count && memcmp(&answers[number], &answer, sizeof answer) != 0)
    number++;
  if (number == answer_count && number < ANSWERS_MOST) answers[answer_count++] = answer;
  if (number == ANSWERS_MOST) number = 0; /* no answer is right for all operators */
  custom->GetMayInplace = functions[number];
  custom->ReleaseMayInplace = release_answer;
  custom->GetAliasMap = functions[0];
  custom->ReleaseAliasMap = release_answer;
}
