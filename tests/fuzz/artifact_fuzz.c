/* Artifacts: changed in any way, with checksums that are right again, they are read, compiled and
 * run within bounds, or refused with a message. The input is a list of changes, because an artifact
 * that is stored would be compiled again by the next build: its first byte chooses a model of
 * tests/data/models, and each change has four bytes for the place, one for its kind, and one for
 * the value. */
#include "artifacts.h"
#include "attempt.h"

enum { CHANGE = 6 };

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static const char *const models[] = {"transformer", "convolution", "control", "text"};
enum { MODEL_COUNT = sizeof models / sizeof *models };
static unsigned char *artifacts[MODEL_COUNT];
static size_t sizes[MODEL_COUNT];

static void make_artifact(size_t i, const char *folder) {
  char from[1000];
  char to[300];
  tenon_graph_t *graph = NULL;
  snprintf(from, sizeof from, MODELS "/%s.onnx", models[i]);
  snprintf(to, sizeof to, "%s/%s.tenon", folder, models[i]);
  if (tenon_graph_load(from, NULL, &graph) != TENON_OK || tenon_graph_save(graph, to) != TENON_OK ||
      !(artifacts[i] = artifact_read(to, &sizes[i]))) {
    fprintf(stderr, "%s: %s\n", from, tenon_error());
    abort();
  }
  tenon_graph_release(graph);
}

static void make_artifacts(void) {
  char folder[200];
  if (artifacts[0]) return;
  attempt_start();
  if (tn_folder_make(folder, sizeof folder) != TENON_OK) abort();
  for (size_t i = 0; i < MODEL_COUNT; i++)
    make_artifact(i, folder);
  tn_folder_remove(folder);
}

/* Makes one change: of a bit, a byte, or a number of the index. */
static void change_bytes(unsigned char *bytes, size_t size, const unsigned char *change) {
  uint32_t place;
  memcpy(&place, change, sizeof place);
  const unsigned kind = change[4] % 4;
  const unsigned char value = change[5];
  const size_t begin = TN_ARTIFACT_INDEX;
  const size_t at = begin + place % (size - begin);
  const size_t number = begin + place % 4096 / 8 * 8;
  if (kind == 0) bytes[at] = (unsigned char)(bytes[at] ^ 1u << value % 8);
  if (kind == 1) bytes[at] = value;
  if (kind < 2 || number + 8 > size) return;
  int64_t stored;
  memcpy(&stored, bytes + number, sizeof stored);
  stored = kind == 2 ? stored + (int8_t)value : (int64_t)((uint64_t)value << value % 57);
  memcpy(bytes + number, &stored, sizeof stored);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  make_artifacts();
  const size_t model = size ? data[0] % MODEL_COUNT : 0;
  unsigned char *bytes = tn_allocate_aligned(sizes[model]);
  if (!bytes) return 0;
  memcpy(bytes, artifacts[model], sizes[model]);
  for (size_t at = 1; at + CHANGE <= size; at += CHANGE)
    change_bytes(bytes, sizes[model], data + at);
  artifact_sum_again(bytes, sizes[model]);
  const attempt_t a = attempt_model(bytes, sizes[model], NULL, size % 3 ? 0 : TENON_COMPILE_PLAIN);
  tn_release_aligned(bytes);
  if (a.wrong || a.is_fickle) {
    fprintf(stderr, "wrong: %s; last message: %s\n",
            a.wrong ? a.wrong : "the same run ended in another way", tenon_error());
    abort();
  }
  return 0;
}
