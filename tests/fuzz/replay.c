/* Runs a fuzz target on existing files: those of its corpus, or those on the command line. A
 * finding ends the program. With FUZZ_SAY=1 each file is named before it is run. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
size_t LLVMFuzzerMutate(unsigned char *data, size_t size, size_t capacity);

size_t LLVMFuzzerMutate(unsigned char *data, size_t size,
                        size_t capacity) { /* Nothing is mutated here. */
  (void)data;
  (void)capacity;
  return size;
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
  free(data);
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

int main(int count, char **paths) {
  int ran = 0;
  for (int i = 1; i < count; i++)
    ran += run_file(paths[i]);
  if (count == 1) ran = run_folder(FUZZ_CORPUS);
  printf("%d passed, %d failed, 0 skipped\n", ran, ran == 0);
  return ran == 0;
}
