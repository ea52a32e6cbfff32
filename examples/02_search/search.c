/* search.c: asks questions of a text: cuts it into passages, turns each into a vector, prints the nearest to the
 * question.
 *
 * A whole application of Tenon, against tenon/tenon.h alone: a library of operators of one's own (text_ops.c), a model
 * that uses them (make_model.py), and an executable made of that model, which takes text and gives vectors. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "passages.h"

enum { BATCH = 8, BEST = 3, KINDS = 64, KINDS_PRINTED = 6 };

static const char usage[] = "usage: search [-m MODEL] [-l LIBRARY] [-q QUESTION] [FILE...]\n"
                            "Prints the passages of the files that answer a question best.\n"
                            "  -m MODEL     the encoder (build/run/minilm.onnx)\n"
                            "  -l LIBRARY   the operators that it uses (build/run/libtext.so)\n"
                            "  -q QUESTION  in place of the three built-in ones\n"
                            "  FILE         plain text (/usr/share/common-licenses/GPL-3)\n";

static void quit(const char *what, const char *why) {
  fprintf(stderr, "search: %s: %s\n", what, why);
  exit(EXIT_FAILURE);
}

/* Every function of Tenon that can fail says so by its status, and why by tenon_error(). */
static void check(tenon_status_t status) {
  if (status != TENON_OK) quit(tenon_status_name(status), tenon_error());
}

/* Turns texts into vectors, some at a time: `*width` numbers for each text, which the caller frees. */
static float *embed(tenon_executable_t *encoder, tenon_string_t *texts, int64_t count, int64_t *width,
                    tenon_profile_t *profile) {
  float *vectors = NULL;
  for (int64_t done = 0, batch, stride; done < count; done += batch) {
    tenon_tensor_t view, *input = &view, *output = NULL; /* the texts are lent as they are, the vectors are made */
    batch = count - done < BATCH ? count - done : BATCH;
    check(tenon_tensor_view(&view, texts + done, tenon_dtype(TENON_STRING), 1, &batch, NULL, &stride));
    check(tenon_executable_run(encoder, &input, &output, profile));
    if (output->ndim != 2 || tenon_dtype_id(output->dtype) != TENON_F32)
      quit("model", "its output is not f32 [n, width]");
    *width = output->shape[1];
    if (!vectors && !(vectors = calloc((size_t)(count * *width), sizeof *vectors))) quit("vectors", strerror(errno));
    memcpy(vectors + done * *width, output->data, (size_t)(batch * *width) * sizeof *vectors);
    tenon_tensor_release(output);
    if (count > BATCH && isatty(STDERR_FILENO)) /* a bar, gone when it is full */
      fprintf(stderr, "\r[%-40.*s]%s", (int)(40 * (done + batch) / count), "########################################",
              done + batch < count ? "" : "\r\033[K");
  }
  return vectors;
}

/* Takes the largest number out of an array. */
static int64_t take_largest(double *values, int64_t count, double *largest) {
  int64_t at = 0;
  for (int64_t i = 1; i < count; i++)
    if (values[i] > values[at]) at = i;
  *largest = values[at];
  values[at] = -1e9;
  return at;
}

/* Prints the passages nearest to a question, by the cosine of the angle between the vectors, which have length 1. */
static void answer(const float *question, const passages_t *passages, const float *vectors, int64_t width) {
  double *scores = calloc((size_t)passages->count, sizeof *scores), score;
  if (!scores) quit("scores", strerror(errno));
  for (int64_t i = 0; i < passages->count; i++)
    for (int64_t j = 0; j < width; j++) scores[i] += question[j] * vectors[i * width + j];
  for (int64_t n = 0; n < BEST && n < passages->count; n++) {
    tenon_string_t best = passages->items[take_largest(scores, passages->count, &score)];
    printf("  %.3f  ", score);
    passage_print(best);
  }
  free(scores);
}

/* Prints how long the runs took, and which kinds of operators took most of it. */
static void report(const tenon_profile_t *profile, const passages_t *passages) {
  const char *kinds[KINDS];
  double seconds[KINDS] = {0}, largest;
  int64_t kind_count = 0, first = 0, last = 0, k;
  for (int32_t i = 0; i < tenon_profile_count(profile); i++) {
    tenon_span_t span = {.size = sizeof span};
    check(tenon_profile_span(profile, i, &span));
    if (i == 0) first = span.begin;
    if (span.depth > 0) continue; /* a part of a node */
    last = span.end;
    for (k = 0; k < kind_count && strcmp(kinds[k], span.kind);) k++;
    if (k == kind_count && k < KINDS) kinds[kind_count++] = span.kind;
    if (k < KINDS) seconds[k] += 1e-9 * (double)(span.end - span.begin);
  }
  double total = 1e-9 * (double)(last - first);
  printf("%lld passages (%.0f kB) in %.2f s: %.1f passages a second. The time went to\n", (long long)passages->count,
         (double)passages->size / 1e3, total, (double)passages->count / total);
  for (int n = 0; n < KINDS_PRINTED && n < kind_count; n++) {
    const char *kind = kinds[take_largest(seconds, kind_count, &largest)];
    printf("  %4.1f %%  %s\n", 100 * largest / total, kind);
  }
}

int main(int argc, char **argv) {
  const char *model = "build/run/minilm.onnx", *library = "build/run/libtext.so";
  const char *questions[] = {"May I sell copies of the program?", "Is there a warranty?",
                             "What happens to my rights if I violate the licence?"};
  char *default_paths[] = {"/usr/share/common-licenses/GPL-3", NULL};
  int question_count = 3, i = 1;
  passages_t passages = {0};
  for (; i < argc && argv[i][0] == '-'; i += 2) {
    char option = argv[i][1];
    const char **value = option == 'm' ? &model : option == 'l' ? &library : option == 'q' ? &questions[0] : NULL;
    int is_help = strcmp(argv[i], "--help") == 0;
    if (!value || i + 1 == argc) return fputs(usage, is_help ? stdout : stderr), is_help ? EXIT_SUCCESS : EXIT_FAILURE;
    if (option == 'q') question_count = 1;
    *value = argv[i + 1];
  }
  for (char **path = i < argc ? argv + i : default_paths; *path; path++)
    if (!passages_read(&passages, *path)) quit(*path, strerror(errno));
  if (!passages_cut(&passages)) quit("passages", strerror(errno));
  if (passages.count == 0) quit("passages", "the files hold no text");

  tenon_graph_t *graph;
  tenon_executable_t *encoder;
  tenon_profile_t *profile;
  check(tenon_library_load(library, 0, NULL));
  check(tenon_graph_load(model, NULL, &graph));
  if (tenon_graph_input_count(graph) != 1 || tenon_graph_output_count(graph) != 1) quit(model, "no encoder of texts");
  check(tenon_executable_create(graph, NULL, &encoder));
  check(tenon_profile_create(&profile));

  int64_t width = 0;
  float *vectors = embed(encoder, passages.items, passages.count, &width, profile);
  for (int q = 0; q < question_count; q++) {
    tenon_string_t text = {questions[q], strlen(questions[q])};
    float *question = embed(encoder, &text, 1, &width, NULL);
    printf("%s\n", questions[q]);
    answer(question, &passages, vectors, width);
    free(question);
  }
  report(profile, &passages);

  free(vectors);
  tenon_profile_release(profile);
  tenon_executable_release(encoder);
  tenon_graph_release(graph);
  passages_free(&passages);
  return EXIT_SUCCESS;
}
