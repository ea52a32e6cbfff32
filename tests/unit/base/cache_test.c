/* The cache of compiled files: an entry that was changed, truncated or extended is not found, and
 * processes that race for an entry always see a whole one. */
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/memory.h"
#include "check.h"
#include "sanitizer.h"

static char folder[] = "/tmp/tenon-cache-XXXXXX";
static char path[100];
static const char key[] = "a key of some length";
static const char other[] = "a key of some lengtH";
enum { BYTES = 150 };
static unsigned char data[BYTES];

static bool is_there(void) {
  void *found = NULL;
  size_t size = 0;
  if (!tn_cache_read("entry", key, sizeof key, &found, &size)) return false;
  CHECK(size == BYTES && memcmp(found, data, BYTES) == 0); /* The bytes read are those written. */
  tn_release_memory(found);
  return true;
}

static size_t load(unsigned char *out, size_t most) {
  FILE *file = fopen(path, "rb");
  size_t size = file ? fread(out, 1, most, file) : 0;
  if (file) fclose(file);
  return size;
}

static void store(const unsigned char *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  CHECK(file && fwrite(bytes, 1, size, file) == size);
  if (file) fclose(file);
}

TEST("an entry is found by name and key, and is not found if a bit of it changes or it ends "
     "elsewhere") {
  unsigned char whole[1000];
  void *found;
  size_t got;
  CHECK(mkdtemp(folder) != NULL);
  setenv("TENON_CACHE", folder, 1);
  snprintf(path, sizeof path, "%s/entry", folder);
  for (int i = 0; i < BYTES; i++)
    data[i] = (unsigned char)(i * 7);
  CHECK(!is_there());
  tn_cache_write("entry", key, sizeof key, data, BYTES);
  CHECK(is_there());
  CHECK(!tn_cache_read("entry", other, sizeof other, &found, &got) &&
        !tn_cache_read("entry", key, 3, &found, &got));
  size_t size = load(whole, sizeof whole);
  CHECK(size > BYTES + sizeof key && size < sizeof whole);
  for (size_t bit = 0; bit < 8 * size; bit++) {
    whole[bit / 8] ^= (unsigned char)(1 << bit % 8);
    store(whole, size);
    if (is_there()) CHECK_NEVER("an entry with another bit");
    whole[bit / 8] ^= (unsigned char)(1 << bit % 8);
  }
  for (size_t cut = 0; cut < size; cut++) {
    store(whole, cut);
    if (is_there()) CHECK_NEVER("an entry that was cut");
  }
  memset(whole + size, 0, 16);
  for (size_t more = 1; more <= 16; more++) {
    store(whole, size + more);
    if (is_there()) CHECK_NEVER("an entry with more behind it");
  }
  /* The entry is written again in its place. */
  tn_cache_write("entry", key, sizeof key, data, BYTES);
  CHECK(is_there());
  CHECK(chmod(path, 0620) == 0);
  CHECK(!is_there()); /* Other users may have changed it. */
}

TEST(
    "processes that write and read one entry all the time always see a whole entry of one writer") {
  enum {
    WRITERS = 3,
    ROUNDS = 400,
  };
  pid_t children[WRITERS];
#ifdef HAS_TSAN
  SKIP("the thread sanitizer ends children of processes with threads");
#endif
  tn_cache_write("race", key, sizeof key, "0", 1);
  fflush(NULL);
  for (int w = 0; w < WRITERS; w++) {
    if ((children[w] = fork())) continue;
    size_t size = (size_t)(w + 1) * 3000;
    char *mine = malloc(size);
    int wrong = 0;
    memset(mine, 'a' + w, size);
    for (int i = 0; i < ROUNDS; i++) {
      void *found = NULL;
      size_t got = 0;
      tn_cache_write("race", key, sizeof key, mine, size);
      if (!tn_cache_read("race", key, sizeof key, &found, &got)) wrong++;
      const char *text = found;
      for (size_t k = 1; k < got; k++)
        wrong += text[k] != text[0];
      wrong += got > 1 && got != (size_t)(text[0] - 'a' + 1) * 3000;
      tn_release_memory(found);
    }
    _exit(wrong != 0);
  }
  for (int w = 0; w < WRITERS; w++) {
    int status = -1;
    CHECK(waitpid(children[w], &status, 0) == children[w] && status == 0);
  }
}

TEST("the cache folder holds the entries and nothing else") {
  int count = 0;
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    char name[400];
    if (e->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "%s/%.300s", folder, e->d_name);
    CHECK(unlink(name) == 0);
    count++;
  }
  if (dir) closedir(dir);
#ifdef HAS_TSAN
  int entries = 1; /* The test of racing processes is skipped. */
#else
  int entries = 2;
#endif
  CHECK(count == entries && rmdir(folder) == 0);
}
