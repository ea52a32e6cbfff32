/* The policy for loading: each rule alone, rules together, and where the policy comes from.
 * trust_test.c tests owners and permissions. */
#include "rules.h"

#include "base/memory.h"
#include "base/sha256.h"
#include "base/status.h"
#include "faults.h"
#include "loader/policy.h"

/* the rules of a policy */

TEST("an invalid policy changes nothing, and its message lists all errors") {
  const char *folders[] = {"ops", "/ops", NULL};
  const char *hashes[] = {"12ab", NULL};
  const tenon_policy_t wrong = {sizeof wrong, 64, 3, 2, folders, hashes};
  const tenon_policy_t none = {sizeof none, 0, 1, 0, NULL, NULL};
  const tenon_policy_t small = {8, 0, 0, 0, NULL, NULL};
  begin();
  set(0, "/nowhere", NULL);
  CHECK_STATUS(tenon_policy_set(&wrong), TENON_INVALID);
  CHECK_TEXT(tn_error(), "unknown flags 0x40: expected TENON_POLICY_...; folder 'ops': expected an "
                         "absolute path; folder '': expected");
  CHECK_TEXT(tn_error(), "hash '12ab': expected SHA-256, 64 hexadecimal digits; hash '': expected");
  CHECK_STATUS(tenon_policy_set(&none), TENON_INVALID);
  CHECK_TEXT(tn_error(), "folders is NULL");
  CHECK_STATUS(tenon_policy_set(&small), TENON_INVALID);
  REFUSED(file, 0, "it is not in /nowhere");
  end();
}

TEST("only files in allowed folders are loaded, after links are resolved") {
  char link_in[300], link_out[300], ops[300];
  begin();
  snprintf(ops, sizeof ops, "%s/ops", folder);
  snprintf(link_in, sizeof link_in, "%s/link.so", folder);
  snprintf(link_out, sizeof link_out, "%s/ops/out.so", folder);
  copy(file, beside("away.so"), 0644);
  CHECK(symlink("ops/good.so", link_in) == 0 && symlink("../away.so", link_out) == 0);
  set(0, ops, NULL);
  LOADS(file, 0);
  LOADS(link_in, 0); /* The link leads into the folder. */
  REFUSED(link_out, 0, "away.so: rule folders (tenon_policy_set): it is not in ");
  REFUSED(beside("away.so"), 0, "put it there, or name its folder in the rule");
  CHECK(symlink("ops", beside("other")) == 0);
  set(0, beside("other"), NULL); /* The allowed folder may be a link. */
  LOADS(file, 0);
  set(0, beside("op"), NULL); /* A prefix of a name is not a folder. */
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

/* Returns whether a file with this name is mapped. */
static bool is_mapped(const char *name) {
  char line[1000];
  bool found = false;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps))
    found = found || strstr(line, name);
  if (maps) fclose(maps);
  return found;
}

TEST("a file that others could change after its hash was computed is opened from a copy that they "
     "cannot change") {
  tenon_library_t *library = NULL;
  tenon_library_t *again = NULL;
  begin();
  CHECK(chmod(file, 0666) == 0);
  set(0, NULL, hash_of(file));
  CHECK_STATUS(tenon_library_load(file, TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  CHECK(is_mapped("memfd:library") && !is_mapped(file));
  FILE *out = fopen(file, "r+b");
  CHECK(out && fseek(out, 0x1100, SEEK_SET) == 0 && fwrite("overwritten", 1, 11, out) == 11 &&
        fclose(out) == 0);
  const tenon_op_t *op = NULL;
  CHECK_STATUS(tenon_op_find("good::doubles", &op), TENON_OK);
  float x[2] = {1, 2};
  float y[2] = {0, 0};
  int64_t shape[1] = {2};
  int64_t strides[1] = {1};
  const tenon_dtype_t f32 = {2, 32, 1};
  tenon_tensor_t in = {
      .data = x, .device = {1, 0}, .ndim = 1, .dtype = f32, .shape = shape, .strides = strides};
  tenon_tensor_t result = in;
  tenon_tensor_t *inputs[1] = {&in};
  tenon_tensor_t *outputs[1] = {&result};
  result.data = y;
  CHECK_STATUS(tenon_op_call(op, NULL, inputs, outputs, 0), TENON_OK);
  CHECK(y[0] == 2 && y[1] == 4);
  REFUSED(file, 0, "rule sha256"); /* The file has changed and is refused now. */
  CHECK_STATUS(tenon_library_load(file, 0, &again), TENON_DENIED);
  tenon_library_release(library);
  CHECK(!is_mapped("memfd:library"));
  copy(TEST_LIBRARIES "/libgood.so", file,
       /* Other users cannot write to it, so the file itself is opened. */
       0644);
  CHECK_STATUS(tenon_library_load(file, TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  CHECK(is_mapped(file) && !is_mapped("memfd:library"));
  tenon_library_release(library);
  end();
}

TEST("a file that the program opens itself is checked against the same rules") {
  char plain[300];
  begin();
  snprintf(plain, sizeof plain, "%s/plain.so", folder);
  CHECK_STATUS(tenon_policy_check(file), TENON_OK); /* no rules */
  set(0, "/nowhere", NULL);
  CHECK_STATUS(tenon_policy_check(file), TENON_DENIED);
  CHECK_TEXT(tn_error(), "good.so: rule folders (tenon_policy_set): it is not in /nowhere");
  copy(TEST_LIBRARIES "/libno_entry.so", plain, 0644); /* It need not be a library of Tenon. */
  set(0, folder, hash_of(plain));
  CHECK_STATUS(tenon_policy_check(plain), TENON_OK);
  CHECK_STATUS(tenon_policy_check(file), TENON_DENIED);
  CHECK_TEXT(tn_error(), "rule sha256 (tenon_policy_set): its hash is ");
  CHECK(chmod(plain, 0666) == 0);
  CHECK_STATUS(tenon_policy_check(plain), TENON_DENIED);
  CHECK_TEXT(tn_error(),
             "others could change it after its hash was computed, and the program opens it");
  set(TENON_POLICY_PRIVATE, NULL, NULL);
  CHECK_STATUS(tenon_policy_check(plain), TENON_DENIED);
  CHECK_STATUS(tenon_policy_check(beside("missing.so")), TENON_NOT_FOUND);
  CHECK_STATUS(tenon_policy_check(rules_file("private\n", 0644)), TENON_INVALID);
  CHECK_TEXT(tn_error(), "not a shared library: it starts with");
  CHECK_STATUS(tenon_policy_check(NULL), TENON_INVALID);
  end();
}

TEST("two libraries opened from such copies are different libraries") {
  tenon_library_t *one = NULL;
  tenon_library_t *two = NULL;
  const tenon_op_t *op;
  char other[300], digits[2][TN_SHA256_TEXT];
  const char *hashes[2] = {digits[0], digits[1]};
  begin();
  snprintf(other, sizeof other, "%s/ops/opens.so", folder);
  copy(TEST_LIBRARIES "/libopens.so", other, 0666);
  CHECK(chmod(file, 0666) == 0);
  snprintf(digits[0], TN_SHA256_TEXT, "%s", hash_of(file));
  snprintf(digits[1], TN_SHA256_TEXT, "%s", hash_of(other));
  const tenon_policy_t policy = {sizeof policy, 0, 0, 2, NULL, hashes};
  CHECK_STATUS(tenon_policy_set(&policy), TENON_OK);
  CHECK_STATUS(tenon_library_load(file, TENON_LOAD_UNLOADABLE, &one), TENON_OK);
  CHECK_STATUS(tenon_library_load(other, TENON_LOAD_UNLOADABLE, &two), TENON_OK);
  CHECK(tenon_op_find("good::doubles", &op) == TENON_OK &&
        tenon_op_find("opens::op", &op) == TENON_OK);
  tenon_library_release(one);
  tenon_library_release(two);
  end();
}

/* where a policy comes from */

static void use_rules(const char *lines, mode_t mode) {
  tn_policy_forget();
  setenv("TENON_POLICY", rules_file(lines, mode), 1);
}

TEST("the file that TENON_POLICY names sets the policy") {
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
           /* The format of sha256sum, without an end of the last line. */
           0);
  use_rules(lines, 0644);
  LOADS(file, 0);
  REFUSED(beside("ops/c.so"), 0, "not among the 2 that are accepted");
  /* The policy that the program sets comes first. */
  set(0, NULL, NULL);
  LOADS(beside("ops/c.so"), 0);
  end();
}

TEST("a policy that cannot be read refuses every file") {
  begin();
  use_rules("folder ops\nprivat\nsha256 12\nprivate now\n", 0644);
  CHECK_STATUS(load(file, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "the rules for loading cannot be read: /");
  CHECK_TEXT(tn_error(), "line 1: folder 'ops': expected an absolute path; line 2: 'privat': "
                         "expected private, inert, ");
  CHECK_TEXT(tn_error(), "line 3: hash '12': expected SHA-256, 64 hexadecimal digits; line 4: "
                         "'private now': expected");
  /* Everybody could write this file, and so set the policy. */
  use_rules("private\n", 0666);
  CHECK_STATUS(load(file, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "policy is writable by everybody (mode 0666)");
  tn_policy_forget();
  setenv("TENON_POLICY", "/nowhere/policy", 1);
  CHECK_STATUS(load(file, 0), TENON_NOT_FOUND);
  CHECK_TEXT(tn_error(), "the rules for loading cannot be read: /nowhere/policy: No such file");
  end();
}

TEST("the policy file of the machine applies if nothing else sets a policy") {
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

TEST("reports show the policy, and whether a file would pass") {
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

TEST("bridges and plug-ins of devices obey the policy") {
  char *report = NULL;
  char path[400];
  tenon_library_t *library = NULL;
  begin();
  copy(TEST_LIBRARIES "/libgood.so", beside("ops/bridge.so"), 0666);
  copy(TEST_DEVICES "/null.so", beside("ops/null.so"), 0666);
  snprintf(path, sizeof path, "%s/ops", folder);
  setenv("TENON_BRIDGE_PATH", path, 1);
  set(TENON_POLICY_PRIVATE, NULL, NULL);
  CHECK_STATUS(tenon_doctor(&report), TENON_OK);
  CHECK_TEXT(report, "bridge.so: rule private (tenon_policy_set): file /");
  tenon_text_release(report);
  unsetenv("TENON_BRIDGE_PATH");
  REFUSED(beside("ops/null.so"), 0, "null.so is writable by everybody");
  CHECK(chmod(beside("ops/null.so"), 0644) == 0);
  CHECK_STATUS(tenon_library_load(text, TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  tenon_library_release(library);
  end();
}

TEST("a library compiled from source obeys the policy, as a file of the cache") {
  char cache[300], source[300];
  tenon_library_t *library = NULL;
  begin();
  snprintf(cache, sizeof cache, "%s/cache", folder);
  snprintf(source, sizeof source, "%s/made.c", folder);
  setenv("TENON_CACHE", cache, 1);
  FILE *out = fopen(source, "w");
  CHECK(
      out &&
      fputs(
          "#include <tenon/op.h>\nstatic tenon_status_t f(const tenon_loop_t *l) { return (void)l, "
          "TENON_OK; }\n"
          "TENON_LIBRARY(made, \"1\", TENON_OP(\"op(Tensor x) -> Tensor\", TENON_TYPES(\"x: i8; "
          "out = x\"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP(\"i8 -> i8\", f)))\n",
          out) >= 0);
  CHECK(out && fclose(out) == 0);
  set(TENON_POLICY_PRIVATE, beside("ops"), NULL);
  CHECK_STATUS(tenon_library_load_source(source, 0, &library), TENON_DENIED);
  CHECK_TEXT(tn_error(), "rule folders (tenon_policy_set): it is not in ");
  set(TENON_POLICY_PRIVATE, cache, NULL);
  CHECK_STATUS(tenon_library_load_source(source, TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  tenon_library_release(library);
  unsetenv("TENON_CACHE");
  end();
}

/* failing allocations */

TEST("when memory runs out, no file passes that the policy forbids") {
  begin();
  CHECK(chmod(file, 0666) == 0);
  const char *hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  const char *ops = "/nowhere";
  const tenon_policy_t policy = {
      sizeof policy, TENON_POLICY_PRIVATE | TENON_POLICY_INERT, 1, 1, &ops, &hash};
  tenon_status_t status = TENON_MEMORY;
  for (int64_t n = 1; status != TENON_OK && n < 1000;
       /* The policy is set as a whole or not at all. */
       n++) {
    fault_memory(n, false);
    status = tenon_policy_set(&policy);
    fault_end();
    if (status != TENON_OK) CHECK_STATUS(status, TENON_MEMORY);
    if (status != TENON_OK) LOADS(file, 0);
  }
  CHECK_STATUS(status, TENON_OK);
  for (int64_t n = 1, done = 0; !done && n < 1000; n++) {
    tenon_library_t *library = NULL;
    fault_memory(n, true);
    status = tenon_library_load(file, 0, &library);
    fault_end();
    done = status == TENON_DENIED;
    if (!done) CHECK_STATUS(status, TENON_MEMORY);
    CHECK(library == NULL);
  }
  CHECK_STATUS(status, TENON_DENIED);
  use_rules("private\nfolder /nowhere\n", 0644);
  tenon_shutdown(); /* Shutdown forgets the policy of the program. */
  CHECK_STATUS(tenon_start(), TENON_OK);
  for (int64_t n = 1, done = 0; !done && n < 1000; n++) {
    tn_policy_forget();
    fault_memory(n, true);
    status = tenon_library_load(file, 0, NULL);
    fault_end();
    done = status == TENON_DENIED;
    if (!done) CHECK_STATUS(status, TENON_MEMORY);
  }
  CHECK_STATUS(status, TENON_DENIED);
  end();
}
