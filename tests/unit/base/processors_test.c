/* The limits on processors, read from files that the tests write: a tree with proc/self/mountinfo,
 * proc/self/cgroup and the files of control groups. */
#include "base/processors.h"

#include <ftw.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"
#include "check.h"

static char top[64];
static cpu_set_t mask;     /* of this thread before the tests */
static tn_processors_t of; /* what this process has without quotas */

#define V2_MOUNT "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT                                                                                   \
  "33 23 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:11 - cgroup cgroup rw,cpu,cpuacct\n"
#define OTHER_MOUNTS                                                                               \
  "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"                      \
  "23 22 0:5 / /proc rw - proc proc rw\n"                                                          \
  "31 23 0:27 / /sys/fs/cgroup/cpuset rw shared:10 - cgroup cgroup rw,cpuset\n"                    \
  "32 23 0:28 / /sys/fs/cgroup/systemd rw shared:12 - cgroup cgroup rw,xattr,name=systemd\n"

/* Writes a file below `top`, and the folders above it. */
static void write_bytes(const char *path, const void *bytes, size_t size) {
  char whole[4200];
  snprintf(whole, sizeof whole, "%s/%s", top, path);
  for (char *at = whole + strlen(top) + 1; (at = strchr(at, '/')); at++) {
    *at = '\0';
    mkdir(whole, 0700);
    *at = '/';
  }
  FILE *file = fopen(whole, "we");
  CHECK(file && fwrite(bytes, 1, size, file) == size);
  if (file) fclose(file);
}

static void write_text(const char *path, const char *text) {
  write_bytes(path, text, strlen(text));
}

static int remove_one(const char *path, const struct stat *unused, int type, struct FTW *place) {
  (void)unused;
  (void)type;
  (void)place;
  return remove(path);
}

static void end_tree(void) {
  CHECK(!*top || nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
  *top = '\0';
}

/* Begins an empty tree. */
static void begin_tree(void) {
  end_tree();
  strcpy(top, "/tmp/tenon_processors_XXXXXX");
  CHECK(mkdtemp(top) != NULL);
}

static void begin_v2(const char *group, const char *path, const char *text) {
  begin_tree();
  write_text("proc/self/mountinfo", OTHER_MOUNTS V2_MOUNT);
  write_text("proc/self/cgroup", group);
  if (path) write_text(path, text);
}

static void begin_v1(const char *quota, const char *period) {
  begin_tree();
  write_text("proc/self/mountinfo", OTHER_MOUNTS V1_MOUNT);
  write_text("proc/self/cgroup", "7:cpuset:/other\n4:cpu,cpuacct:/job\n1:name=systemd:/else\n");
  write_text("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", quota);
  write_text("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", period);
}

/* The quota that the tree sets, after a check of the number of threads that follows. */
static double quota(void) {
  const tn_processors_t found = tn_processors_under(top);
  int32_t expected = of.count;
  CHECK(found.online == of.online && found.mask == of.mask);
  for (int32_t i = of.count; found.quota > 0 && i >= 1; i--)
    if (found.quota <= i) expected = i;
  if (!CHECK(found.count == expected)) fprintf(stderr, "  quota %g\n", found.quota);
  return found.quota;
}

TEST("without the files of control groups the affinity mask and the machine set the number") {
  CHECK(sched_getaffinity(0, sizeof mask, &mask) == 0);
  begin_tree();
  of = tn_processors_under(top);
  CHECK(of.online == sysconf(_SC_NPROCESSORS_ONLN));
  CHECK(of.mask == CPU_COUNT(&mask) && of.quota == 0);
  CHECK(of.count == (of.mask < of.online ? of.mask : of.online));
  CHECK(tn_processors_under("/nowhere/at/all").count == of.count);
  write_text("proc/self/mountinfo", OTHER_MOUNTS V2_MOUNT V1_MOUNT);
  CHECK(quota() == 0);
  begin_tree();
  write_text("proc/self/cgroup", "0::/job\n4:cpu:/job\n");
  CHECK(quota() == 0);
  begin_tree();
  write_text("proc/self/mountinfo", OTHER_MOUNTS);
  write_text("proc/self/cgroup", "0::/job\n4:cpu:/job\n");
  write_text("sys/fs/cgroup/job/cpu.max", "50000 100000");
  CHECK(quota() == 0);
}

TEST("a mask of one processor allows one, and a larger quota changes nothing") {
  cpu_set_t one;
  size_t first = 0;
  while (!CPU_ISSET(first, &mask))
    first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  begin_v2("0::/job\n", "sys/fs/cgroup/job/cpu.max", "400000 100000\n");
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  const tn_processors_t found = tn_processors_under(top);
  CHECK(sched_setaffinity(0, sizeof mask, &mask) == 0);
  CHECK(found.count == 1 && found.mask == 1 && found.quota == 4 && found.online == of.online);
}

TEST("a quota of control groups of version 2 is a time for each period, and max is none") {
  static const struct {
    const char *text;
    double expected;
  } cases[] = {{"max 100000\n", 0},     {"max\n", 0},           {"150000 100000\n", 1.5},
               {"100000 100000\n", 1},  {"10000 100000", 0.1},  {"1000 1000000\n", 0.001},
               {"50000 25000\n", 2},    {"200000 100000\n", 2}, {"200001 100000\n", 2.00001},
               {"6400000 100000\n", 64}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin_v2("0::/job\n", "sys/fs/cgroup/job/cpu.max", cases[i].text);
    CHECK(quota() == cases[i].expected);
  }
}

TEST("the least quota of a group and of those above it counts") {
  begin_v2("0::/a/b/c\n", "sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
  CHECK(quota() == 0);
  write_text("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  CHECK(quota() == 1.5);
  write_text("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  CHECK(quota() == 0.5);
  write_text("sys/fs/cgroup/a/b/c/cpu.max", "70000 100000\n");
  CHECK(quota() == 0.5);
  write_text("sys/fs/cgroup/cpu.max", "20000 100000\n"); /* a container's root has such a file */
  CHECK(quota() == 0.2);
  /* A group beside them does not count. */
  write_text("sys/fs/cgroup/a/d/cpu.max", "1000 100000\n");
  CHECK(quota() == 0.2);
}

TEST("in a container the mount shows a group below the root, or the root of a namespace") {
  begin_tree();
  write_text("proc/self/mountinfo",
             OTHER_MOUNTS "30 23 0:26 /docker/1f /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  write_text("proc/self/cgroup", "0::/docker/1f\n");
  write_text("sys/fs/cgroup/cpu.max", "150000 100000\n");
  CHECK(quota() == 1.5);
  write_text("proc/self/cgroup", "0::/docker/1f/job\n");
  CHECK(quota() == 1.5);
  write_text("sys/fs/cgroup/job/cpu.max", "25000 100000\n");
  CHECK(quota() == 0.25);
  /* A group that the mount does not show: the mount's own folder is the best that is known. */
  write_text("proc/self/cgroup", "0::/docker/1fe/job\n");
  CHECK(quota() == 1.5);
  write_text("proc/self/cgroup", "0::/else\n");
  CHECK(quota() == 1.5);
  begin_v2("0::/\n", "sys/fs/cgroup/cpu.max", "150000 100000\n"); /* with a namespace */
  CHECK(quota() == 1.5);
}

TEST("a quota of control groups of version 1 is in two files, and a negative one is none") {
  begin_v1("150000\n", "100000\n");
  CHECK(quota() == 1.5);
  begin_v1("-1\n", "100000\n");
  CHECK(quota() == 0);
  begin_v1("50000\n", "250000\n");
  CHECK(quota() == 0.2);
  begin_v1("50000\n", "0\n");
  CHECK(quota() == 0);
  begin_v1("50000\n", "");
  CHECK(quota() == 0);
  begin_v1("-1\n", "100000\n"); /* the quota of the group above */
  write_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "30000\n");
  write_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(quota() == 0.3);
}

TEST("the controllers of version 1 may come in any order, and names that resemble cpu are others") {
  begin_v1("150000\n", "100000\n");
  write_text("proc/self/mountinfo", OTHER_MOUNTS
             "33 23 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpuacct,cpu\n");
  write_text("proc/self/cgroup", "4:cpuacct,cpu:/job\n");
  CHECK(quota() == 1.5);
  write_text("proc/self/cgroup", "4:cpuacct:/job\n3:cpuset:/job\n2:xcpu:/job\n");
  CHECK(quota() == 0);
  write_text("proc/self/cgroup", "2:cpu:/job\n");
  CHECK(quota() == 1.5);
  write_text("proc/self/mountinfo",
             "33 23 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpuacct\n");
  CHECK(quota() == 0);
  /* The words before the dash are options of the mount, and fields may stand before the dash. */
  write_text("proc/self/mountinfo", "33 23 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,cpu shared:1 "
                                    "master:2 propagate_from:3 unbindable - cgroup none rw,cpu\n");
  CHECK(quota() == 1.5);
}

TEST("where both versions are mounted the smaller quota counts") {
  static const struct {
    const char *v1;
    const char *v2;
    double expected;
  } cases[] = {{"50000\n", "max 100000\n", 0.5},
               {"-1\n", "50000 100000\n", 0.5},
               {"50000\n", "20000 100000\n", 0.2},
               {"20000\n", "50000 100000\n", 0.2},
               {"-1\n", "max 100000\n", 0}};
  for (int i = 0; i < 5; i++) {
    begin_v1(cases[i].v1, "100000\n");
    write_text("proc/self/mountinfo",
               OTHER_MOUNTS V1_MOUNT "30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n");
    write_text("proc/self/cgroup", "4:cpu,cpuacct:/job\n0::/job\n");
    write_text("sys/fs/cgroup/unified/job/cpu.max", cases[i].v2);
    CHECK(quota() == cases[i].expected);
  }
}

TEST("numbers that are none, negative, zero or huge set no limit below one processor") {
  static const char *const texts[] = {"",
                                      "\n",
                                      " ",
                                      "garbage",
                                      "max",
                                      "max max",
                                      "100000",
                                      "100000 max",
                                      "100000 garbage",
                                      "-1 100000",
                                      "-150000 -100000",
                                      "100000 -1",
                                      "0 100000",
                                      "100000 0",
                                      "nan 100000",
                                      "100000 nan",
                                      "99999999999999999999999999 1",
                                      "1e308 1e-300",
                                      "inf 100000",
                                      "100000,100000",
                                      "\xff\xfe\x80 \x01"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    begin_v2("0::/job\n", "sys/fs/cgroup/job/cpu.max", texts[i]);
    quota();
    CHECK(tn_processors_under(top).count == of.count);
    begin_v1(texts[i], texts[i]);
    quota();
    CHECK(tn_processors_under(top).count >= 1);
  }
  begin_v2("0::/job\n", "sys/fs/cgroup/job/cpu.max", "1 99999999999999999999999999");
  CHECK(tn_processors_under(top).count == 1);
  begin_v2("0::/job\n", "sys/fs/cgroup/job/cpu.max", "1 inf");
  CHECK(tn_processors_under(top).count >= 1);
}

static void write_long(const char *path, const char *before, size_t size, const char *after) {
  const size_t begin = strlen(before);
  const size_t end = strlen(after);
  char *text = malloc(begin + size + end);
  memcpy(text, before, begin);
  memset(text + begin, 'x', size);
  memcpy(text + begin + size, after, end);
  write_bytes(path, text, begin + size + end);
  free(text);
}

TEST("lines of any length are read, and the mount after them is found") {
  for (size_t size = 4000; size < 40000; size += 1021) {
    begin_v2("0::/job\n", "sys/fs/cgroup/job/cpu.max", "50000 100000\n");
    write_long("proc/self/mountinfo", "22 1 0:30 / / rw - overlay overlay rw,lowerdir=", size,
               "\n" V2_MOUNT);
    CHECK(quota() == 0.5);
    write_long("proc/self/cgroup", "5:", size, ":/job\n0::/job\n");
    CHECK(quota() == 0.5);
    write_long("proc/self/cgroup", "0::/", size, "\n"); /* a group that cannot be */
    CHECK(quota() == 0);
    write_long("sys/fs/cgroup/job/cpu.max", "", size, "50000 100000\n");
    write_text("proc/self/cgroup", "0::/job\n");
    CHECK(quota() == 0);
    write_text("sys/fs/cgroup/job/cpu.max", "50000 100000\n");
    write_long("proc/self/mountinfo", "30 23 0:26 / /", size, " rw - cgroup2 cgroup2 rw\n");
    CHECK(quota() == 0);
    write_long("proc/self/mountinfo", "30 23 0:26 /", size, " / rw - cgroup2 cgroup2 rw\n");
    CHECK(quota() == 0);
  }
}

TEST("the rest of a long line is no line of its own") {
  /* The options of an overlay may hold any text. */
  for (size_t size = 12200; size < 12300; size++) {
    begin_v2("0::/job\n", "sys/fs/cgroup/job/cpu.max", "50000 100000\n");
    write_long("proc/self/mountinfo", "22 1 0:30 / / rw - overlay overlay rw,lowerdir=", size,
               "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    CHECK(quota() == 0);
  }
}

TEST("files of any bytes set no limit and break nothing") {
  static const char *const paths[] = {"proc/self/mountinfo", "proc/self/cgroup",
                                      "sys/fs/cgroup/job/cpu.max"};
  uint32_t random = 1;
  char bytes[4096];
  for (int round = 0; round < 300; round++) {
    begin_v2("0::/job\n", "sys/fs/cgroup/job/cpu.max", "50000 100000\n");
    for (size_t i = 0; i < sizeof bytes; i++) {
      random = random * 1664525 + 1013904223;
      /* Some of the bytes are those that the formats give a meaning to. */
      const char *const words = "0:/ -,\n\0cpu";
      bytes[i] = random >> 31 ? words[(random >> 8) % 12] : (char)(random >> 16);
    }
    const size_t size = random >> 8 & 4095;
    write_bytes(paths[round % 3], bytes, size);
    const tn_processors_t found = tn_processors_under(top);
    CHECK(found.count >= 1 && found.count <= of.count);
  }
}

TEST("every part of the lines may be missing") {
  static const char *const lines[] = {V2_MOUNT, "0::/job\n", "50000 100000\n"};
  static const char *const paths[] = {"proc/self/mountinfo", "proc/self/cgroup",
                                      "sys/fs/cgroup/job/cpu.max"};
  for (int i = 0; i < 3; i++)
    for (size_t size = 0; size < strlen(lines[i]); size++) {
      begin_v2("0::/job\n", paths[2], lines[2]);
      write_bytes(paths[i], lines[i], size);
      const tn_processors_t found = tn_processors_under(top);
      CHECK(found.count >= 1 && found.count <= of.count);
      write_text(paths[i], lines[i]);
      CHECK(quota() == 0.5);
    }
}

TEST("a prefix of any length is no error") {
  for (size_t size = 900; size < 9000; size += 613) {
    char *prefix = malloc(size + 1);
    memset(prefix, 'y', size);
    prefix[0] = '/';
    prefix[size] = '\0';
    CHECK(tn_processors_under(prefix).count == of.count);
    free(prefix);
  }
}

TEST("the limits of this process allow at least one processor and at most what the machine has") {
  const tn_processors_t found = tn_processors();
  CHECK(found.count >= 1 && found.count <= found.online && found.online == of.online);
  CHECK(found.mask == of.mask && found.quota >= 0);
}

TEST("nothing is left behind") {
  end_tree();
  tn_thread_drop();
}

/* moving a thread */

typedef struct mover_t {
  cpu_set_t allowed;
  int is_skipped;
} mover_t;

static int first_of(const cpu_set_t *mask) {
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET((size_t)i, mask)) return i;
  return -1;
}

static cpu_set_t own_mask(void) {
  cpu_set_t mask;
  CHECK(sched_getaffinity(0, sizeof mask, &mask) == 0);
  return mask;
}

static void move(void *argument) {
  mover_t *mover = argument;
  tn_processor_set_t set = {0};
  mover->allowed = own_mask();
  mover->is_skipped = CPU_COUNT(&mover->allowed) < 2;
  for (int i = 0; i < 100 && !mover->is_skipped; i++) {
    const int32_t before = tn_thread_processor();
    CHECK(CPU_ISSET((size_t)before, &mover->allowed));
    CHECK(tn_thread_leave(&set, before));
    const cpu_set_t mask = own_mask();
    CHECK(tn_thread_processor() != before && !CPU_ISSET((size_t)before, &mask));
    CHECK(CPU_COUNT(&mask) == CPU_COUNT(&mover->allowed) - 1); /* It may return to all others. */
  }
  CHECK(!tn_thread_leave(&set, -1) && !tn_thread_leave(&set, CPU_SETSIZE));
}

TEST("a thread leaves its processor for another one that it may use") {
  mover_t mover = {.is_skipped = 0};
  const cpu_set_t before = own_mask();
  tn_spawned_t thread;
  CHECK(tn_spawn(&thread, move, &mover));
  tn_join(&thread);
  const cpu_set_t after = own_mask();
  CHECK(CPU_EQUAL(&before, &after)); /* Other threads stay where they are. */
  if (mover.is_skipped) SKIP("this process may use one processor only");
}

static void obey(void *unused) {
  const cpu_set_t all = own_mask();
  const int processor = first_of(&all);
  tn_processor_set_t set = {0};
  cpu_set_t one;
  (void)unused;
  CPU_ZERO(&one);
  CPU_SET((size_t)processor, &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(!tn_thread_leave(&set, processor)); /* There is no other. */
  CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
  CHECK(tn_thread_leave(&set, processor) == (CPU_COUNT(&all) > 1));
  /* The program pins the thread after it has moved: that counts from now on. */
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(!tn_thread_leave(&set, processor));
  const cpu_set_t found = own_mask();
  CHECK(CPU_EQUAL(&found, &one));
}

TEST("a thread that the program has pinned stays where it is") {
  tn_spawned_t thread;
  CHECK(tn_spawn(&thread, obey, NULL));
  tn_join(&thread);
}
