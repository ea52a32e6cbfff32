/* search.c: answers questions about a text. This is a whole application of Tenon against
 * tenon/tenon.h alone: it has its own operators (text_ops.c), a model that uses them
 * (make_model.py), and an executable of that model, which takes text and returns vectors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

/* LEAST and MOST are bytes of a passage. */
enum {
  LEAST = 300,
  MOST = 1000,
  BATCH = 8,
  BEST = 3,
  PRINTED = 160,
  KINDS = 64,
};
static const char usage[] =
    "usage: search [-m MODEL] [-l LIBRARY] [-q QUESTION] [FILE...]\n"
    "Prints the passages of the files (Debian's GPL-3) that answer a question best.\n";
typedef struct text_t {
  char *data;
  tenon_string_t *passages; /* they point into data */
  int64_t size;
  int64_t count;
} text_t;

static void *need(void *memory) {
  return memory ? memory : (perror("search"), exit(EXIT_FAILURE), NULL);
}

/* Every function of Tenon that can fail returns a status, and tenon_error() returns the reason. */
static void check(tenon_status_t status) {
  if (status != TENON_OK) {
    fprintf(stderr, "search: %s\n", tenon_error());
    exit(EXIT_FAILURE);
  }
}

static void read_file(text_t *text, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(EXIT_FAILURE);
  }
  for (int64_t got = 1; got > 0; text->size += got) {
    text->data = need(realloc(text->data, (size_t)text->size + 65536));
    got = (int64_t)fread(text->data + text->size, 1, 65536, file);
  }
  fclose(file);
}

/* Makes passages: whole paragraphs until they are long enough together, or else up to the end of a
 * sentence or a word. */
static const char *end_of_passage(const char *begin, const char *last) {
  const char *limit = last - begin > MOST ? begin + MOST : last;
  const char *word = limit;
  const char *sentence = NULL;
  for (const char *end = begin + 1; end < limit; end++) {
    if (*end != ' ' && *end != '\n') continue;
    word = end;
    if (end - begin > LEAST && end[-1] == '\n' && *end == '\n') return end;
    if (end - begin > LEAST && strchr(".;:?!", end[-1])) sentence = end;
  }
  return limit == last ? last : sentence ? sentence : word;
}

/* Texts of similar length need little padding in a batch. */
static int by_size(const void *a, const void *b) {
  return (int)((const tenon_string_t *)a)->size - (int)((const tenon_string_t *)b)->size;
}
static void cut(text_t *text) {
  for (const char *begin = text->data, *last = begin + text->size, *end; begin < last;
       begin = end) {
    end = strchr(" \n\r\t\f", *begin) ? begin + 1 : end_of_passage(begin, last);
    if (end == begin + 1) continue;
    text->passages =
        need(realloc(text->passages, (size_t)(text->count + 1) * sizeof *text->passages));
    text->passages[text->count++] = (tenon_string_t){begin, (uint64_t)(end - begin)};
  }
  if (text->count) qsort(text->passages, (size_t)text->count, sizeof *text->passages, by_size);
}

/* Computes the vectors of `count` texts, *width numbers each. The caller frees them. */
static float *embed(tenon_executable_t *encoder, tenon_string_t *texts, int64_t count,
                    int64_t *width, tenon_profile_t *profile) {
  float *vectors = NULL;
  for (int64_t done = 0, batch, stride; done < count; done += batch) {
    /* the texts are lent without a copy; the vectors are allocated by the call */
    tenon_tensor_t view;
    tenon_tensor_t *input = &view;
    tenon_tensor_t *output = NULL;
    batch = count - done < BATCH ? count - done : BATCH;
    check(tenon_tensor_view(&view, texts + done, tenon_dtype(TENON_STRING), 1, &batch, NULL,
                            &stride));
    check(tenon_executable_run(encoder, &input, &output, profile));
    *width = output->shape[1];
    if (!vectors) vectors = need(malloc((size_t)(count * *width) * sizeof *vectors));
    memcpy(vectors + done * *width, output->data, (size_t)(batch * *width) * sizeof *vectors);
    tenon_tensor_release(output);
    /* a progress bar, which disappears when it is full */
    if (count > BATCH && isatty(STDERR_FILENO))
      fprintf(stderr, "\r[%-40.*s]%s", (int)(40 * (done + batch) / count),
              "########################################", done + batch < count ? "" : "\r\033[K");
  }
  return vectors;
}

static int64_t take_largest(double *values, int64_t count, double *out_value) {
  int64_t at = 0;
  for (int64_t i = 1; i < count; i++)
    if (values[i] > values[at]) at = i;
  *out_value = values[at];
  values[at] = -1e9;
  return at;
}

/* Prints the passages nearest to a question, by the cosine of the angle between the vectors, which
 * have length 1. */
static void answer(const float *question, const text_t *text, const float *vectors, int64_t width) {
  double *scores = need(calloc((size_t)text->count, sizeof *scores));
  double score;
  for (int64_t i = 0; i < text->count * width; i++)
    scores[i / width] += (double)question[i % width] * vectors[i];
  for (int n = 0; n < BEST && n < text->count; n++) {
    tenon_string_t best = text->passages[take_largest(scores, text->count, &score)];
    printf("  %.3f  ", score);
    for (uint64_t i = 0; i < best.size && (i < PRINTED || (best.data[i] & 0xC0) == 0x80); i++)
      if (!strchr(" \n\r\t", best.data[i]))
        putchar(best.data[i]);
      else if (!strchr(" \n\r\t", best.data[i - 1]))
        putchar(' ');
    puts(best.size > PRINTED ? "..." : "");
  }
  free(scores);
}

/* Prints how long the runs took, and which kinds of operators took most of the time. */
static void report(const tenon_profile_t *profile, const text_t *text) {
  const char *kinds[KINDS];
  double seconds[KINDS] = {0};
  double total = 0;
  double largest;
  double passages = (double)text->count;
  int64_t count = 0;
  int64_t k;
  for (int32_t i = 0; i < tenon_profile_count(profile); i++) {
    tenon_span_t span = {.size = sizeof span};
    check(tenon_profile_span(profile, i, &span));
    for (k = 0; k < count && strcmp(kinds[k], span.kind);)
      k++;
    if (span.depth || k == KINDS) continue;
    if (k == count) kinds[count++] = span.kind;
    seconds[k] += 1e-9 * (double)(span.end - span.begin);
    total += 1e-9 * (double)(span.end - span.begin);
  }
  printf("%.0f passages in %.2f s: %.1f passages a second; the time went to\n", passages, total,
         passages / total);
  for (int n = 0; n < 6 && n < count; n++) {
    k = take_largest(seconds, count, &largest);
    printf("  %4.1f %%  %s\n", 100 * largest / total, kinds[k]);
  }
}

int main(int argc, char **argv) {
  const char *model = "build/run/minilm.onnx";
  const char *library = "build/run/text_ops.so";
  const char *asked = NULL;
  const char *ask[] = {"May I sell copies of the program?", "Is there a warranty?",
                       "What if I violate the licence?"};
  text_t text = {0};
  for (int option; (option = getopt(argc, argv, "m:l:q:h-:")) != -1;)
    if (option == 'm')
      model = optarg;
    else if (option == 'l')
      library = optarg;
    else if (option == 'q')
      asked = optarg;
    else {
      fputs(usage, stdout);
      return option == '?' ? 2 : EXIT_SUCCESS;
    }
  for (int i = optind; i < argc || i == optind; i++)
    read_file(&text, i < argc ? argv[i] : "/usr/share/common-licenses/GPL-3");
  cut(&text);
  if (!text.count) {
    fputs("search: the files hold no text\n", stderr);
    return EXIT_FAILURE;
  }
  tenon_graph_t *graph = NULL;
  tenon_executable_t *encoder = NULL;
  tenon_profile_t *profile = NULL;
  check(tenon_library_load(library, 0, NULL));
  check(tenon_graph_load(model, NULL, &graph));
  check(tenon_executable_create(graph, NULL, &encoder));
  check(tenon_profile_create(&profile));
  int64_t width = 0;
  float *vectors = embed(encoder, text.passages, text.count, &width, profile);
  for (int q = 0; q < (asked ? 1 : 3); q++) {
    tenon_string_t question = {asked ? asked : ask[q], strlen(asked ? asked : ask[q])};
    float *vector = embed(encoder, &question, 1, &width, NULL);
    puts(question.data);
    answer(vector, &text, vectors, width);
    free(vector);
  }
  report(profile, &text);
  tenon_profile_release(profile);
  tenon_executable_release(encoder);
  tenon_graph_release(graph);
  free(vectors);
  free(text.data);
  free(text.passages);
  return EXIT_SUCCESS;
}
