/* Files that Tenon saves and reads back: cache entries, and subgraphs of sim inside them. The first
 * byte chooses: the rest is the file of an entry, or the bytes of a subgraph. Any bytes are
 * accepted or refused, and a changed entry is not accepted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "base/cache.h"
#include "device/plugin.h"
#include "faults.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static const char key[] = "what it was made of";
static char folder[] = "/dev/shm/tenon-fuzz-XXXXXX";
static char entry[64];

static void wrong(const char *what) {
  fprintf(stderr, "wrong: %s; last message: %s\n", what, tenon_error());
  abort();
}

static void put(const void *data, size_t size) {
  FILE *file = fopen(entry, "wb");
  if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
}

static void end(void) {
  (void)unlink(entry);
  (void)rmdir(folder);
}

static void read_entry(const unsigned char *data, size_t size) {
  void *found = NULL;
  size_t found_size = 0;
  put(data, size);
  if (!tn_cache_read("entry", key, sizeof key, &found, &found_size)) return;
  for (size_t i = 0; i < found_size; i++)
    if (((unsigned char *)found)[i] != data[size - found_size + i])
      wrong("other bytes than the file has");
  free(found);
}

static void load_group(tn_ordinal_t *o, const unsigned char *data, size_t size) {
  void *group = NULL;
  void *copy = malloc(size + 1); /* A sanitizer then sees its end. */
  if (!copy) return;
  memcpy(copy, data, size);
  tenon_status_t status = o->table->group_load(&o->context, copy, size, &group);
  free(copy);
  if (status == TENON_OK && !group) wrong("a group that is none");
  if (status != TENON_OK && !*tenon_error()) wrong("a failure without a message");
  if (status == TENON_OK) o->table->group_free(&o->context, group);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static tn_ordinal_t *sim;
  tenon_device_t device;
  if (!sim) {
    if (tenon_start() != TENON_OK || tenon_device_find("sim", 0, &device) != TENON_OK ||
        tn_ordinal_get(device, &sim) != TENON_OK || !mkdtemp(folder) ||
        setenv("TENON_CACHE", folder, 1) != 0)
      abort();
    snprintf(entry, sizeof entry, "%s/entry", folder);
    (void)umask(0077);
    (void)atexit(end);
  }
  if (!size) return 0;
  fault_limit((int64_t)256 << 20);
  if (data[0] % 2)
    read_entry(data + 1, size - 1);
  else
    load_group(sim, data + 1, size - 1);
  fault_limit(0);
  return 0;
}
