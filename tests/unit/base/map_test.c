/* The map from text to pointer, against a plain table, through growth and removals. */
#include "base/map.h"

#include "base/memory.h"
#include "check.h"
#include "faults.h"

static int values[2000];

static void name_of(int i, char *out) { snprintf(out, 32, "key %d", i * 7919); }

TEST("a key that was put is found, and another key is not") {
  tn_map_t map = {0};
  char name[32];
  CHECK(tn_map_get(&map, "a", 1) == NULL && tn_map_remove(&map, "a", 1) == NULL);
  for (int i = 0; i < 2000; i++)
    name_of(i, name), CHECK(tn_map_put(&map, name, strlen(name), &values[i]));
  for (int i = 0; i < 2000; i++)
    name_of(i, name), CHECK(tn_map_get(&map, name, strlen(name)) == &values[i]);
  CHECK(map.count == 2000 && tn_map_get(&map, "key", 3) == NULL &&
        tn_map_get(&map, "key 0", 4) == NULL);
  tn_map_clear(&map);
  CHECK(map.count == 0 && tn_map_get(&map, "key 0", 5) == NULL);
}

TEST("keys are bytes, may be empty, and are copied") {
  tn_map_t map = {0};
  char key[3] = {'a', 0, 'b'};
  CHECK(tn_map_put(&map, key, 3, &values[0]) && tn_map_put(&map, key, 1, &values[1]) &&
        tn_map_put(&map, key, 0, &values[2]));
  key[2] = 'c';
  CHECK(tn_map_get(&map, "a\0b", 3) == &values[0] && tn_map_get(&map, "a", 1) == &values[1]);
  CHECK(tn_map_get(&map, "", 0) == &values[2] && tn_map_get(&map, "a\0c", 3) == NULL);
  tn_map_clear(&map);
}

TEST("putting a key again replaces its value, removing it returns the value, and it can be put "
     "again") {
  tn_map_t map = {0};
  char name[32];
  for (int round = 0; round < 50; round++)
    for (int i = 0; i < 40; i++) {
      name_of(i, name);
      CHECK(tn_map_put(&map, name, strlen(name), &values[i]) &&
            tn_map_put(&map, name, strlen(name), &values[i + 1]));
      CHECK(map.count == 1);
      CHECK(tn_map_remove(&map, name, strlen(name)) == &values[i + 1]);
      CHECK(tn_map_remove(&map, name, strlen(name)) == NULL &&
            tn_map_get(&map, name, strlen(name)) == NULL && map.count == 0);
    }
  CHECK(map.capacity <= 256); /* removed keys do not pile up */
  tn_map_clear(&map);
}

TEST("a walk visits each key once") {
  tn_map_t map = {0};
  char name[32];
  int seen[100] = {0};
  size_t position = 0;
  const char *key;
  for (int i = 0; i < 100; i++)
    name_of(i, name), CHECK(tn_map_put(&map, name, strlen(name), &values[i]));
  for (int i = 0; i < 100; i += 3) {
    name_of(i, name);
    tn_map_remove(&map, name, strlen(name));
  }
  for (int *value; (value = tn_map_next(&map, &position, &key));) {
    name_of((int)(value - values), name);
    CHECK(strcmp(key, name) == 0);
    seen[value - values]++;
  }
  for (int i = 0; i < 100; i++)
    CHECK(seen[i] == (i % 3 != 0));
  tn_map_clear(&map);
}

TEST("when memory runs out, putting fails and the map stays unchanged") {
  tn_map_t map = {0};
  char name[32];
  for (int i = 0; i < 12; i++)
    name_of(i, name), CHECK(tn_map_put(&map, name, strlen(name), &values[i]));
  for (int64_t n = 1; n <= 2; n++) { /* the allocation of the larger table, then that of the key */
    fault_memory(n, false);
    CHECK(!tn_map_put(&map, "new", 3, &values[50]));
    fault_end();
    CHECK(map.count == 12 && tn_map_get(&map, "new", 3) == NULL);
    for (int i = 0; i < 12; i++)
      name_of(i, name), CHECK(tn_map_get(&map, name, strlen(name)) == &values[i]);
  }
  CHECK(tn_map_put(&map, "new", 3, &values[50]) && map.count == 13);
  tn_map_clear(&map);
}
