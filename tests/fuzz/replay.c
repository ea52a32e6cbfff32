/* Runs a fuzz target on existing files: those of its corpus, or those on the command line. A
 * finding ends the program. With FUZZ_SAY=1 each file is named before it is run. With
 * FUZZ_MUTATIONS=N the target also runs on N damaged forms of the files, which are the same in each
 * run with the same FUZZ_SEED, most of them made by the target's mutator if it has one;
 * FUZZ_KEEP=FILE keeps the one that is being run. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
size_t LLVMFuzzerMutate(unsigned char *data, size_t size, size_t capacity);
/* Targets may have one, whose changes leave files well-formed. */
size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t size, size_t capacity, unsigned seed)
    __attribute__((weak));

size_t LLVMFuzzerMutate(unsigned char *data, size_t size,
                        size_t capacity) { /* Nothing is mutated here. */
  (void)data;
  (void)capacity;
  return size;
}

typedef struct seed_t { /* A file to damage. */
  unsigned char *data;
  size_t size;
} seed_t;

static seed_t *seeds;
static size_t seed_count;

static void keep_seed(unsigned char *data, size_t size) {
  seeds = realloc(seeds, (seed_count + 1) * sizeof *seeds);
  if (!seeds) exit(1);
  seeds[seed_count++] = (seed_t){data, size};
}

static int run_file(const char *path) {
  FILE *file = fopen(path, "rb");
  long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  unsigned char *data = size >= 0 ? malloc((size_t)size + 1) : NULL;
  if (!data || fseek(file, 0, SEEK_SET) != 0 ||
      fread(data, 1, (size_t)size, file) != (size_t)size) {
    fprintf(stderr, "%s: cannot be read\n", path);
    exit(1);
  }
  fclose(file);
  if (getenv("FUZZ_SAY")) fprintf(stderr, "%s\n", path);
  (void)LLVMFuzzerTestOneInput(data, (size_t)size);
  keep_seed(data, (size_t)size);
  return 1;
}

static int run_folder(const char *path) {
  struct dirent **entries = NULL;
  char file[4096];
  int ran = 0;
  int count = scandir(path, &entries, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
    if (entries[i]->d_name[0] != '.') ran += run_file(file);
    free(entries[i]);
  }
  free(entries);
  return ran;
}

/* mutations */

static uint64_t random_state;

/* Returns a number below `count` (xorshift64*). */
static size_t pick(size_t count) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return count ? (size_t)((random_state * 2685821657736338717u >> 32) % count) : 0;
}

/* Puts `count` bytes of `from` in place of `gone` bytes at `at`. */
static void replace_bytes(seed_t *seed, size_t at, size_t gone, const unsigned char *from,
                          size_t count) {
  if (gone > seed->size - at) gone = seed->size - at;
  unsigned char *data = malloc(seed->size - gone + count + 1);
  if (!data) exit(1);
  memcpy(data, seed->data, at);
  if (count) memcpy(data + at, from, count);
  memcpy(data + at + count, seed->data + at + gone, seed->size - at - gone);
  free(seed->data);
  *seed = (seed_t){data, seed->size - gone + count};
}

/* Flips a bit, sets a byte, counts one up or down, cuts the end off, removes, inserts or repeats
 * bytes, takes bytes of another file, or inserts a number of nine bytes, the largest that formats
 * of this kind have. Half of the inputs keep their size, so that the damage reaches what follows a
 * table of sizes. */
static void damage(seed_t *seed, bool keeps_size) {
  static const unsigned char huge[] = {0, 255, 255, 255, 255, 255, 255, 255, 255};
  const seed_t *other = &seeds[pick(seed_count)];
  const size_t at = pick(seed->size);
  const size_t from = pick(other->size);
  size_t count = 1 + pick(16);
  const unsigned char byte = (unsigned char)pick(256);
  if (count > other->size - from) count = other->size - from;
  size_t kind = pick(keeps_size ? 3 : 8);
  if (!seed->size) kind = 6;
  switch (kind) {
  case 0:
    seed->data[at] ^= (unsigned char)(1 << pick(8));
    break;
  case 1:
    seed->data[at] = byte;
    break;
  case 2:
    seed->data[at] = (unsigned char)(seed->data[at] + (pick(2) ? 2 : 254));
    break;
  case 3:
    replace_bytes(seed, at, pick(8) ? count : seed->size, NULL, 0);
    break;
  case 4:
    replace_bytes(seed, at, 0, &byte, 1);
    break;
  case 5:
    replace_bytes(seed, at, count, other->data + from, count);
    break;
  case 6:
    replace_bytes(seed, at, 0, other->data + from, count);
    break;
  default:
    replace_bytes(seed, at, pick(2), huge, sizeof huge);
    break;
  }
}

/* Lets the target change the file. */
static void change(seed_t *seed) {
  const size_t capacity = 2 * seed->size + 256;
  unsigned char *data = realloc(seed->data, capacity);
  if (!data) exit(1);
  seed->data = data;
  seed->size = LLVMFuzzerCustomMutator(data, seed->size, capacity, (unsigned)pick(1u << 31));
}

static void keep_input(const char *path, const seed_t *seed) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(seed->data, 1, seed->size, file) != seed->size || fclose(file) != 0) {
    fprintf(stderr, "%s: cannot be written\n", path);
    exit(1);
  }
}

static int run_mutations(long count) {
  const char *start = getenv("FUZZ_SEED");
  const char *path = getenv("FUZZ_KEEP");
  random_state = 88172645463325252u ^ (uint64_t)(start ? strtoull(start, NULL, 10) : 1) << 20;
  for (long i = 0; i < count && seed_count; i++) {
    const seed_t *base = &seeds[pick(seed_count)];
    seed_t seed = {malloc(base->size + 1), base->size};
    if (!seed.data) exit(1);
    memcpy(seed.data, base->data, base->size);
    const bool keeps_size = pick(2);
    const bool is_changed = LLVMFuzzerCustomMutator && pick(4);
    for (size_t times = is_changed ? 0 : 1 + pick(4); times > 0; times--)
      damage(&seed, keeps_size);
    if (is_changed) change(&seed);
    if (path) keep_input(path, &seed);
    (void)LLVMFuzzerTestOneInput(seed.data, seed.size);
    free(seed.data);
  }
  return seed_count ? (int)count : 0;
}

static void free_seeds(void) {
  for (size_t i = 0; i < seed_count; i++)
    free(seeds[i].data);
  free(seeds);
}

int main(int count, char **paths) {
  int ran = 0;
  const char *mutations = getenv("FUZZ_MUTATIONS");
  for (int i = 1; i < count; i++)
    ran += run_file(paths[i]);
  if (count == 1) ran = run_folder(FUZZ_CORPUS);
  if (mutations) ran += run_mutations(strtol(mutations, NULL, 10));
  free_seeds();
  printf("%d passed, %d failed, 0 skipped\n", ran, ran == 0);
  return ran == 0;
}
