/* The rules for loading: each alone and together, from the program, from a file, as root and as another user, in a set-uid
 * program.  Files are copies of the planted library `good`, in a folder of /tmp. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "base/trust.h"
#include "check.h"
#include "loader/policy.h"

enum { NOBODY = 65534 };
static char folder[200], file[300], text[2000];

static void copy(const char *from, const char *to, mode_t mode) {
  tn_file_t data;
  CHECK_STATUS(tn_file_map(from, &data), TENON_OK);
  remove(to);
  FILE *out = fopen(to, "wb");
  CHECK(out && fwrite(data.data, 1, data.size, out) == data.size);
  if (out) fclose(out);
  CHECK(chmod(to, mode) == 0);
  tn_file_unmap(&data);
}

/* A folder FOLDER/ops with good.so, both as they should be. */
static void begin(void) {
  CHECK_STATUS(tn_folder_make(folder, sizeof folder - 20), TENON_OK);
  CHECK(chmod(folder, 0755) == 0);
  snprintf(file, sizeof file, "%s/ops", folder);
  CHECK(mkdir(file, 0755) == 0 && chmod(file, 0755) == 0);
  snprintf(file, sizeof file, "%s/ops/good.so", folder);
  copy(TEST_LIBRARIES "/libgood.so", file, 0644);
}

static const char *beside(const char *name) { return snprintf(text, sizeof text, "%s/%s", folder, name), text; }

static void end(void) {
  char command[300];
  CHECK_STATUS(tenon_policy_set(NULL), TENON_OK);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  CHECK(system(command) == 0);
  unsetenv("TENON_POLICY");
  tenon_shutdown();
}

static tenon_status_t load(const char *path, uint32_t flags) {
  char message[2000];
  tenon_library_t *library = NULL;
  tenon_status_t status = tenon_library_load(path, flags | TENON_LOAD_UNLOADABLE, &library);
  snprintf(message, sizeof message, "%s", tn_error());
  CHECK((status == TENON_OK) == (library != NULL));
  tenon_library_release(library);
  const tenon_op_t *op;
  CHECK(tenon_op_find("good::doubles", &op) == TENON_NOT_FOUND);
  return status == TENON_OK ? status : tn_fail(status, "%s", message);
}

#define REFUSED(path, flags, words)                                                                                    \
  do {                                                                                                                 \
    tenon_library_t *library_ = NULL;                                                                                  \
    CHECK_STATUS(tenon_library_load((path), (flags), &library_), TENON_DENIED);                                        \
    CHECK_TEXT(tn_error(), (words));                                                                                   \
    tenon_library_release(library_);                                                                                   \
  } while (0)
#define LOADS(path, flags) CHECK_STATUS(load((path), (flags)), TENON_OK)

static void set(uint32_t flags, const char *one_folder, const char *hash) {
  const tenon_policy_t policy = {sizeof policy, flags, one_folder ? 1 : 0, hash ? 1 : 0, &one_folder, &hash};
  CHECK_STATUS(tenon_policy_set(&policy), TENON_OK);
}

static const char *hash_of(const char *path) {
  static char digits[TN_SHA256_TEXT];
  uint8_t hash[TN_SHA256_SIZE];
  tn_file_t data;
  CHECK_STATUS(tn_file_map(path, &data), TENON_OK);
  tn_sha256(data.data, data.size, hash);
  tn_sha256_text(hash, digits);
  tn_file_unmap(&data);
  return digits;
}

/* ---- rules -------------------------------------------------------------------------------------------------------- */

TEST("a policy that is wrong changes nothing, and its message has all of it") {
  const char *folders[] = {"ops", "/ops", NULL}, *hashes[] = {"12ab", NULL};
  const tenon_policy_t wrong = {sizeof wrong, 64, 3, 2, folders, hashes}, none = {sizeof none, 0, 1, 0, NULL, NULL};
  const tenon_policy_t small = {8, 0, 0, 0, NULL, NULL};
  begin();
  set(0, "/nowhere", NULL);
  CHECK_STATUS(tenon_policy_set(&wrong), TENON_INVALID);
  CHECK_TEXT(tn_error(), "unknown flags 0x40; folder 'ops': expected an absolute path; folder '': expected");
  CHECK_TEXT(tn_error(), "hash '12ab': expected SHA-256, 64 hexadecimal digits; hash '': expected");
  CHECK_STATUS(tenon_policy_set(&none), TENON_INVALID);
  CHECK_TEXT(tn_error(), "folders is NULL");
  CHECK_STATUS(tenon_policy_set(&small), TENON_INVALID);
  REFUSED(file, 0, "it is not in /nowhere");
  end();
}

TEST("only files in allowed folders are loaded, links resolved") {
  char link_in[300], link_out[300], ops[300];
  begin();
  snprintf(ops, sizeof ops, "%s/ops", folder), snprintf(link_in, sizeof link_in, "%s/link.so", folder);
  snprintf(link_out, sizeof link_out, "%s/ops/out.so", folder);
  copy(file, beside("away.so"), 0644);
  CHECK(symlink("ops/good.so", link_in) == 0 && symlink("../away.so", link_out) == 0);
  set(0, ops, NULL);
  LOADS(file, 0);
  LOADS(link_in, 0); /* it leads there */
  REFUSED(link_out, 0, "away.so: rule folders (tenon_policy_set): it is not in ");
  REFUSED(beside("away.so"), 0, "put it there, or name its folder in the rule");
  CHECK(symlink("ops", beside("other")) == 0);
  set(0, beside("other"), NULL); /* a folder may be a link */
  LOADS(file, 0);
  set(0, beside("op"), NULL); /* part of a name is no folder */
  REFUSED(file, 0, "rule folders");
  set(0, "/", NULL);
  LOADS(file, 0);
  end();
}

TEST("only files with an accepted hash are loaded") {
  char good[TN_SHA256_TEXT], other[300];
  begin();
  snprintf(other, sizeof other, "%s/ops/twin.so", folder);
  copy(TEST_LIBRARIES "/libtwin_one.so", other, 0644);
  snprintf(good, sizeof good, "%s", hash_of(file));
  set(0, NULL, good);
  LOADS(file, 0);
  REFUSED(other, 0, "rule sha256 (tenon_policy_set): its hash is ");
  CHECK_TEXT(tn_error(), hash_of(other));
  CHECK_TEXT(tn_error(), "not among the 1 that are accepted");
  FILE *end_of = fopen(file, "ab");
  CHECK(end_of && fputc(0, end_of) == 0 && fclose(end_of) == 0);
  REFUSED(file, 0, "rule sha256");
  end();
}

/* Whether a file under this name is mapped. */
static bool is_mapped(const char *name) {
  char line[1000];
  bool found = false;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) found = found || strstr(line, name);
  if (maps) fclose(maps);
  return found;
}

TEST("a file that others could change after its hash was found is opened from a copy that they cannot") {
  tenon_library_t *library = NULL, *again = NULL;
  begin();
  CHECK(chmod(file, 0666) == 0);
  set(0, NULL, hash_of(file));
  CHECK_STATUS(tenon_library_load(file, TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  CHECK(is_mapped("memfd:library") && !is_mapped(file));
  FILE *out = fopen(file, "r+b");
  CHECK(out && fseek(out, 0x1100, SEEK_SET) == 0 && fwrite("overwritten", 1, 11, out) == 11 && fclose(out) == 0);
  const tenon_op_t *op = NULL;
  CHECK_STATUS(tenon_op_find("good::doubles", &op), TENON_OK);
  float x[2] = {1, 2}, y[2] = {0, 0};
  int64_t shape[1] = {2}, strides[1] = {1};
  const tenon_dtype_t f32 = {2, 32, 1};
  tenon_tensor_t in = {.data = x, .device = {1, 0}, .ndim = 1, .dtype = f32, .shape = shape, .strides = strides};
  tenon_tensor_t result = in, *inputs[1] = {&in}, *outputs[1] = {&result};
  result.data = y;
  CHECK_STATUS(tenon_op_call(op, NULL, inputs, outputs, 0), TENON_OK);
  CHECK(y[0] == 2 && y[1] == 4);
  REFUSED(file, 0, "rule sha256"); /* as it is now */
  CHECK_STATUS(tenon_library_load(file, 0, &again), TENON_DENIED);
  tenon_library_release(library);
  CHECK(!is_mapped("memfd:library"));
  copy(TEST_LIBRARIES "/libgood.so", file, 0644); /* nobody else may write: the file itself is opened */
  CHECK_STATUS(tenon_library_load(file, TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  CHECK(is_mapped(file) && !is_mapped("memfd:library"));
  tenon_library_release(library);
  end();
}

TEST("two files that others could change are two libraries") {
  tenon_library_t *one = NULL, *two = NULL;
  const tenon_op_t *op;
  char other[300], digits[2][TN_SHA256_TEXT];
  const char *hashes[2] = {digits[0], digits[1]};
  begin();
  snprintf(other, sizeof other, "%s/ops/opens.so", folder);
  copy(TEST_LIBRARIES "/libopens.so", other, 0666);
  CHECK(chmod(file, 0666) == 0);
  snprintf(digits[0], TN_SHA256_TEXT, "%s", hash_of(file)), snprintf(digits[1], TN_SHA256_TEXT, "%s", hash_of(other));
  const tenon_policy_t policy = {sizeof policy, 0, 0, 2, NULL, hashes};
  CHECK_STATUS(tenon_policy_set(&policy), TENON_OK);
  CHECK_STATUS(tenon_library_load(file, TENON_LOAD_UNLOADABLE, &one), TENON_OK);
  CHECK_STATUS(tenon_library_load(other, TENON_LOAD_UNLOADABLE, &two), TENON_OK);
  CHECK(tenon_op_find("good::doubles", &op) == TENON_OK && tenon_op_find("opens::op", &op) == TENON_OK);
  tenon_library_release(one), tenon_library_release(two);
  end();
}

/* ---- owners and modes, as this user and as nobody ------------------------------------------------------------------ */

static void check_modes(void) {
  char ops[300];
  begin();
  snprintf(ops, sizeof ops, "%s/ops", folder);
  set(TENON_POLICY_PRIVATE, NULL, NULL);
  LOADS(file, 0);
  CHECK(chmod(file, 0664) == 0);
  REFUSED(file, 0, "rule private (tenon_policy_set): file ");
  CHECK_TEXT(tn_error(), "may be written to by its group (mode 0664): chmod go-w");
  CHECK(chmod(file, 0646) == 0);
  REFUSED(file, 0, "may be written to by others (mode 0646)");
  CHECK(chmod(file, 0644) == 0 && chmod(ops, 0777) == 0);
  REFUSED(file, 0, "/ops may be written to by everybody (mode 0777): chmod go-w");
  CHECK(chmod(ops, 01777) == 0); /* others may write there, but not take the file away */
  LOADS(file, 0);
  CHECK(chmod(ops, 0755) == 0 && chmod(folder, 0775) == 0); /* two above the file */
  REFUSED(file, 0, "may be written to by its group (mode 0775)");
  CHECK(chmod(file, 0666) == 0);
  REFUSED(file, 0, ": 2 problems:\n  - rule private");
  CHECK_STATUS(tenon_policy_set(NULL), TENON_OK);
  LOADS(file, 0);
  REFUSED(file, TENON_LOAD_STRICT, "rule private (TENON_LOAD_STRICT): folder ");
  CHECK(chmod(file, 0644) == 0 && chmod(folder, 0755) == 0);
  LOADS(file, TENON_LOAD_STRICT);
  end();
}

static void check_owners(void) { /* as nobody: libraries of root are fine, those of a third user are not */
  set(TENON_POLICY_PRIVATE, NULL, NULL);
  LOADS(file, 0);
  REFUSED(beside("ops/third.so"), 0, "third.so belongs to user 12345, not to this user, 65534, or root: chown it");
  REFUSED(beside("third/good.so"), 0, "/third belongs to user 12345");
  set(0, NULL, hash_of(file));
  REFUSED(beside("ops/hidden.so"), 0, "hidden.so: Permission denied");
}

/* Runs it in a child that is nobody; the child's checks count as this test's. */
static void as_nobody(void (*run)(void)) {
  fflush(NULL);
  pid_t child = fork();
  int state = 1;
  if (child == 0) {
    check_failures = 0;
    if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) _exit(99);
    run();
    _exit(check_failures != 0);
  }
  CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

TEST("what others could change is refused by the rule private") { check_modes(); }

TEST("an unprivileged user has the same rule") {
  if (geteuid() != 0) SKIP("this user is unprivileged already: the test above is this one");
  as_nobody(check_modes);
}

TEST("files of root are fine for another user, those of a third user are not") {
  if (geteuid() != 0) SKIP("only root can make files of other users");
  begin();
  copy(file, beside("ops/third.so"), 0644);
  CHECK(chown(text, 12345, 12345) == 0);
  copy(file, beside("ops/hidden.so"), 0600);
  CHECK(mkdir(beside("third"), 0755) == 0 && chmod(text, 0755) == 0);
  copy(file, beside("third/good.so"), 0644);
  CHECK(chown(beside("third"), 12345, 12345) == 0);
  as_nobody(check_owners);
  set(TENON_POLICY_PRIVATE, NULL, NULL);
  REFUSED(beside("ops/third.so"), 0, "third.so belongs to user 12345, not to root: chown it");
  end();
}

TEST("a part of a path that is exchanged while it is looked at is found") {
  tn_file_t data;
  tn_file_identity_t identity, changed;
  begin();
  CHECK_STATUS(tn_file_map_real(file, &data, &identity), TENON_OK);
  CHECK(tn_file_is_same(file, &identity));
  changed = identity;
  copy(TEST_LIBRARIES "/libgood.so", beside("new.so"), 0644);
  CHECK(rename(beside("new.so"), file) == 0);
  CHECK(!tn_file_is_same(file, &identity)); /* the same bytes, another file */
  tn_file_unmap(&data);
  CHECK_STATUS(tn_file_map_real(file, &data, &identity), TENON_OK);
  CHECK(identity.number != changed.number || identity.changed != changed.changed);
  FILE *out = fopen(file, "r+b");
  CHECK(out && fseek(out, 1000, SEEK_SET) == 0 && fputc('x', out) == 'x' && fclose(out) == 0);
  CHECK(!tn_file_is_same(file, &identity));
  tn_file_unmap(&data);
  snprintf(text, sizeof text, "%s/link", folder);
  CHECK(symlink("ops", text) == 0);
  strcat(text, "/good.so");
  CHECK_STATUS(tn_file_map_real(text, &data, &identity), TENON_ABORTED); /* no real path: a link is in it */
  CHECK_TEXT(tn_error(), "was changed while it was looked at: try again");
  end();
}

/* ---- where rules come from ----------------------------------------------------------------------------------------- */

static const char *rules_file(const char *lines, mode_t mode) {
  static char path[300];
  snprintf(path, sizeof path, "%s/policy", folder);
  FILE *out = fopen(path, "w");
  CHECK(out && fputs(lines, out) >= 0 && fclose(out) == 0 && chmod(path, mode) == 0);
  return path;
}

static void use_rules(const char *lines, mode_t mode) {
  tn_policy_forget();
  setenv("TENON_POLICY", rules_file(lines, mode), 1);
}

TEST("a file that TENON_POLICY names states the rules") {
  char lines[1000];
  begin();
  snprintf(lines, sizeof lines, "# ours\n\n  folder %s/ops \n\tprivate\r\ninert\n", folder);
  use_rules(lines, 0644);
  LOADS(file, 0);
  CHECK(chmod(file, 0666) == 0);
  REFUSED(file, 0, "rule private (TENON_POLICY=/");
  CHECK(chmod(file, 0644) == 0);
  copy(TEST_LIBRARIES "/libconstructor.so", beside("ops/c.so"), 0644);
  REFUSED(beside("ops/c.so"), 0, "rule inert (TENON_POLICY=/");
  snprintf(lines, sizeof lines, "%s  good.so\nsha256 %064d", hash_of(file),
           0); /* as sha256sum writes, no last line's end */
  use_rules(lines, 0644);
  LOADS(file, 0);
  REFUSED(beside("ops/c.so"), 0, "not among the 2 that are accepted");
  set(0, NULL, NULL); /* the program's own word comes before */
  LOADS(beside("ops/c.so"), 0);
  end();
}

TEST("rules that cannot be read refuse every file") {
  begin();
  use_rules("folder ops\nprivat\nsha256 12\nprivate now\n", 0644);
  CHECK_STATUS(load(file, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "the rules for loading cannot be read: /");
  CHECK_TEXT(tn_error(),
             "line 1: folder 'ops': expected an absolute path; line 2: 'privat': expected private, inert, ");
  CHECK_TEXT(tn_error(), "line 3: hash '12': expected SHA-256, 64 hexadecimal digits; line 4: 'private now': expected");
  use_rules("private\n", 0666); /* who writes it makes the rules */
  CHECK_STATUS(load(file, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "policy may be written to by everybody (mode 0666)");
  tn_policy_forget();
  setenv("TENON_POLICY", "/nowhere/policy", 1);
  CHECK_STATUS(load(file, 0), TENON_NOT_FOUND);
  CHECK_TEXT(tn_error(), "the rules for loading cannot be read: /nowhere/policy: No such file");
  end();
}

TEST("the machine's file states the rules where nothing else does") {
  static char path[300];
  const char *usual = tn_policy_file;
  begin();
  snprintf(path, sizeof path, "%s", rules_file("folder /nowhere\n", 0644));
  tn_policy_file = path;
  REFUSED(file, 0, "rule folders (/");
  snprintf(text, sizeof text, "%s/own", folder);
  FILE *out = fopen(text, "w");
  CHECK(out && fclose(out) == 0 && chmod(text, 0644) == 0);
  tn_policy_forget();
  setenv("TENON_POLICY", text, 1);
  LOADS(file, 0);
  tn_policy_file = usual;
  end();
}

TEST("the reports say the rules, and whether a file would pass") {
  char *report = NULL;
  uint32_t loadable = 2;
  begin();
  set(TENON_POLICY_PRIVATE, "/nowhere", hash_of(TEST_LIBRARIES "/libgood.so"));
  CHECK_STATUS(tenon_doctor(&report), TENON_OK);
  CHECK_TEXT(report, "policy           folders /nowhere; private; 1 SHA-256 (tenon_policy_set)\n");
  tenon_text_release(report);
  CHECK(chmod(file, 0666) == 0);
  CHECK_STATUS(tenon_library_inspect(file, &report, &loadable), TENON_OK);
  CHECK(loadable == 0);
  CHECK_TEXT(report, "private:       no (the rule private refuses it)\n               file /");
  CHECK_TEXT(report, hash_of(file));
  CHECK_TEXT(report, "  - rule folders (tenon_policy_set): it is not in /nowhere");
  CHECK_TEXT(report, "  - rule private (tenon_policy_set): file /");
  tenon_text_release(report);
  end();
}

TEST("bridges obey the rules") {
  char *report = NULL, path[400];
  begin();
  copy(TEST_LIBRARIES "/libgood.so", beside("ops/bridge.so"), 0666);
  snprintf(path, sizeof path, "%s/ops", folder);
  setenv("TENON_BRIDGE_PATH", path, 1);
  set(TENON_POLICY_PRIVATE, NULL, NULL);
  CHECK_STATUS(tenon_doctor(&report), TENON_OK);
  CHECK_TEXT(report, "bridge.so: rule private (tenon_policy_set): file /");
  tenon_text_release(report);
  unsetenv("TENON_BRIDGE_PATH");
  end();
}

/* ---- set-uid programs ---------------------------------------------------------------------------------------------- */

static void plant(const char *name, const char *words) { /* an executable script */
  FILE *out = fopen(beside(name), "w");
  CHECK(out && fputs(words, out) >= 0 && fclose(out) == 0 && chmod(beside(name), 0755) == 0);
}

static void run_secure(void) {
  char cc[300], path[300], program[300];
  snprintf(cc, sizeof cc, "%s/cc", folder), snprintf(path, sizeof path, "%s", folder);
  snprintf(program, sizeof program, "%s/secure", folder);
  setenv("TENON_LIBRARY_PATH", TEST_LIBRARIES, 1), setenv("TENON_BRIDGE_PATH", path, 1);
  setenv("TENON_CACHE", path, 1), setenv("TENON_POLICY", rules_file("folder /nowhere\n", 0644), 1);
  setenv("CC", cc, 1), setenv("PATH", path, 1), setenv("GCC_EXEC_PREFIX", path, 1);
  setenv("COMPILER_PATH", path, 1), setenv("CPATH", path, 1), setenv("TENON_INCLUDE", path, 1);
  execl(program, program, beside("source.c"), (char *)NULL);
  _exit(98);
}

TEST("in a set-uid program no variable of the environment counts") {
  struct statvfs mount;
  char output[4000] = "", planted[300];
  int ends[2], state = 0;
  size_t size = 0;
  if (geteuid() != 0) SKIP("only root can make a set-uid program of another user's");
  begin();
  if (statvfs(folder, &mount) == 0 && mount.f_flag & ST_NOSUID) {
    end();
    SKIP("/tmp is mounted nosuid");
  }
  copy(TEST_LIBRARIES "/libgood.so", beside("bridge.so"), 0644);
  copy(TEST_SECURE, beside("secure"), 0755);
  CHECK(chmod(beside("secure"), 04755) == 0 && chmod(folder, 01777) == 0);
  snprintf(planted, sizeof planted, "#!/bin/sh\ntouch %s/ran\nexit 1\n", folder);
  plant("cc", planted), plant("as", planted), plant("ld", planted), plant("cc1", planted);
  plant("source.c",
        "#include <tenon/op.h>\nstatic tenon_status_t f(const tenon_loop_t *l) { return (void)l, TENON_OK; }\n"
        "TENON_LIBRARY(made, \"1\", TENON_OP(\"op(Tensor x) -> Tensor\", TENON_TYPES(\"x: i8; out = x\"), "
        "TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP(\"i8 -> i8\", f)))\n");
  CHECK(pipe(ends) == 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1), dup2(ends[1], 2);
    if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) _exit(99);
    run_secure();
  }
  close(ends[1]);
  for (ssize_t part; (part = read(ends[0], output + size, sizeof output - 1 - size)) > 0;) size += (size_t)part;
  close(ends[0]);
  CHECK(waitpid(child, &state, 0) == child);
  if (!CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0)) fprintf(stderr, "%s\n", output);
  CHECK_TEXT(output, "secure: 1, user 65534 as 0\n");
  CHECK_TEXT(output,
             "name: cannot load good: a name without '/' is looked for in TENON_LIBRARY_PATH, which is not set");
  CHECK_TEXT(output, "policy           none\n");
  CHECK_TEXT(output, "source: 1 operators\n");
  CHECK(strstr(output, "bridge.so") == NULL);
  CHECK(!tn_file_exists(beside("ran"))); /* none of the planted programs was run */
  CHECK(strstr(output, "cache: ") == NULL);
  end();
}
