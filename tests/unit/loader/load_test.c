/* Loading of whole files: the planted libraries of tests/fault/libraries, each with one fault, and
 * files made here. Every refusal is one message with all problems, and nothing stays registered. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/thread.h"
#include "check.h"
#include "faults.h"
#include "registry/registry.h"

#define PLANTED(name) TEST_LIBRARIES "/lib" name ".so"
#define SCRATCH TEST_LIBRARIES "/scratch"

static int32_t count_ops(void) {
  const tenon_op_t *const *ops = NULL;
  int32_t count = -1;
  CHECK_STATUS(tenon_ops_list(&ops, &count), TENON_OK);
  tenon_ops_release(ops);
  return count;
}

static int count_text(const char *text, const char *part) {
  int count = 0;
  for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
    count++;
  return count;
}

/* Checks that a file is refused: the message has `problems` problems and contains the texts, and
 * nothing is registered. */
static void check_refused(const char *path, uint32_t flags, tenon_status_t status, int problems,
                          const char *const texts[4]) {
  char head[64];
  int32_t before = count_ops();
  tenon_library_t *library = (tenon_library_t *)(uintptr_t)1;
  tenon_status_t found = tenon_library_load(path, flags, &library);
  CHECK_STATUS(found, status);
  CHECK(library == NULL);
  CHECK_TEXT(tenon_error(), "cannot load ");
  for (int i = 0; i < 4 && texts[i]; i++)
    CHECK_TEXT(tenon_error(), texts[i]);
  snprintf(head, sizeof head, ": %d problems:", problems);
  if (problems > 1) CHECK_TEXT(tenon_error(), head);
  CHECK(count_text(tenon_error(), "\n  - ") == (problems > 1 ? problems : 0));
  CHECK(count_text(tenon_error(), "\n") == (problems > 1 ? problems : 0));
  CHECK(count_ops() == before);
  char real[4096];
  if (tn_file_real_path(path, real, sizeof real) == TENON_OK)
    CHECK(tn_registry_library(real) == NULL);
}

typedef struct fault_t {
  const char *path;
  uint32_t flags;
  tenon_status_t status;
  int problems;
  const char *texts[4];
} fault_t;

static void check_faults(const fault_t *faults, size_t count) {
  for (size_t i = 0; i < count; i++)
    check_refused(faults[i].path, faults[i].flags, faults[i].status, faults[i].problems,
                  faults[i].texts);
}

/* Writes a file with the first `size` bytes (0: all) of the planted library `good`. */
static size_t write_scratch(const char *path, size_t size) {
  tn_file_t file;
  CHECK_STATUS(tn_file_map(PLANTED("good"), &file), TENON_OK);
  size_t all = file.size;
  FILE *out = fopen(path, "wb");
  CHECK(out && fwrite(file.data, 1, size ? size : all, out) == (size ? size : all));
  if (out) fclose(out);
  tn_file_unmap(&file);
  return all;
}

static void write_text(const char *path, const char *text) {
  FILE *out = fopen(path, "wb");
  CHECK(out);
  if (!out) return;
  fputs(text, out);
  fclose(out);
}

/* files that are not libraries */

TEST("a path that is not a regular file is refused") {
  static const fault_t faults[] = {
      {"/nowhere/libx.so", 0, TENON_NOT_FOUND, 1, {"cannot load /nowhere/libx.so: No such file"}},
      {PLANTED("good") "/libx.so", 0, TENON_NOT_FOUND, 1, {"/libx.so: Not a directory"}},
      {TEST_LIBRARIES "/", 0, TENON_INVALID, 1, {"expected a regular file, found a folder"}},
      {SCRATCH ".fifo", 0, TENON_INVALID, 1, {"expected a regular file, found a FIFO"}},
      {"/dev/null", 0, TENON_INVALID, 1, {"expected a regular file, found a device"}},
      {"", 0, TENON_INVALID, 1, {"the path is empty"}},
      {PLANTED("good"), 64, TENON_INVALID, 1, {"unknown flags 0x40"}},
  };
  remove(SCRATCH ".fifo");
  CHECK(mkfifo(SCRATCH ".fifo", 0600) == 0);
  check_faults(faults, sizeof faults / sizeof *faults);
  remove(SCRATCH ".fifo");
  tenon_library_t *library;
  CHECK_STATUS(tenon_library_load(NULL, 0, &library), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "the path is NULL");
}

TEST("a file that cannot be read is refused") {
  static const char *const texts[4] = {"scratch.so: Permission denied"};
  uid_t self = geteuid();
  uid_t nobody = 65534;
  write_scratch(SCRATCH ".so", 0);
  CHECK(chmod(SCRATCH ".so", 0) == 0);
  CHECK(self != 0 || seteuid(nobody) == 0); /* root may read every file. */
  check_refused(SCRATCH ".so", 0, TENON_DENIED, 1, texts);
  CHECK(self != 0 || seteuid(self) == 0);
  remove(SCRATCH ".so");
}

TEST("a file that is not a library is refused") {
  static const char *const empty[4] = {"scratch.so: not a shared library: it is empty"};
  static const char *const script[4] = {"not a shared library: it starts with '#!/bin/sh'",
                                        "tenon build"};
  write_text(SCRATCH ".so", "");
  check_refused(SCRATCH ".so", 0, TENON_INVALID, 1, empty);
  write_text(SCRATCH ".so", "#!/bin/sh\nexit 1\n");
  check_refused(SCRATCH ".so", 0, TENON_INVALID, 1, script);
  remove(SCRATCH ".so");
}

TEST("a truncated library is refused and never opened") {
  static const char *const texts[4] = {"cannot load "};
  size_t all = write_scratch(SCRATCH ".so", 0);
  for (size_t size = 1; size < all; size += 97) {
    write_scratch(SCRATCH ".so", size);
    check_refused(SCRATCH ".so", 0, TENON_INVALID, 1, texts);
  }
  write_scratch(SCRATCH ".so", all - 1);
  check_refused(SCRATCH ".so", 0, TENON_INVALID, 1, texts);
  remove(SCRATCH ".so");
}

TEST("a library for another machine is refused") {
  static const char *const texts[4] = {"built for mips, this process is ",
                                       "rebuild it with `tenon build`"};
  write_scratch(SCRATCH ".so", 0);
  FILE *file = fopen(SCRATCH ".so", "r+b");
  CHECK(file && fseek(file, 18, SEEK_SET) == 0 && fwrite("\10", 1, 1, file) == 1); /* e_machine */
  if (file) fclose(file);
  check_refused(SCRATCH ".so", 0, TENON_INVALID, 1, texts);
  remove(SCRATCH ".so");
}

/* planted faults */

TEST("faults that reading the file finds are refused") {
  static const fault_t faults[] = {
      {PLANTED("no_entry"), 0, TENON_INVALID, 1, {"does not export the function tenon_library"}},
      {PLANTED("static_entry"), 0, TENON_INVALID, 1, {"-DTENON_STATIC"}},
      {PLANTED("entry_data"), 0, TENON_INVALID, 1, {"tenon_library is not a function"}},
      {PLANTED("links_host"),
       0,
       TENON_INVALID,
       1,
       {"it links to libtenon.so.99", "without -ltenon"}},
  };
  check_faults(faults, sizeof faults / sizeof *faults);
}

TEST("faults that opening the library finds are refused") {
  static const fault_t faults[] = {
      {PLANTED("needs_gone"),
       0,
       TENON_UNAVAILABLE,
       3,
       {"the system refuses it: libplanted_gone",
        "it needs libplanted_gone.so.1, which was not found",
        "it needs libplanted_gone_too.so.1, which was not found"}},
      {PLANTED("undefined"),
       0,
       TENON_UNAVAILABLE,
       2,
       {"undefined symbol: nobody_defines_this",
        "it uses nobody_defines_this, which neither it nor the libraries that it needs define"}},
      {PLANTED("gives_null"), 0, TENON_INVALID, 1, {"tenon_library() returned no descriptor"}},
  };
  check_faults(faults, sizeof faults / sizeof *faults);
}

TEST("faults in the descriptor are refused") {
  static const fault_t faults[] = {
      {PLANTED("newer_major"), 0, TENON_INVALID, 1, {"contract 2.0", "update libtenon"}},
      {PLANTED("needs_feature"), 0, TENON_INVALID, 1, {"requires features 0x8"}},
      {PLANTED("small"), 0, TENON_INVALID, 1, {"descriptor of 16 bytes: expected 40"}},
      {PLANTED("layout"), 0, TENON_INVALID, 1, {"layout 10201048: expected 10201040"}},
      {PLANTED("bad_name"), 0, TENON_INVALID, 1, {"library name '2nd-try'"}},
      {PLANTED("head"),
       0,
       TENON_INVALID,
       3,
       {"layout ", "requires features 0x2", "library name '(NULL)'"}},
  };
  check_faults(faults, sizeof faults / sizeof *faults);
}

TEST("faults in the items are refused") {
  static const fault_t faults[] = {
      {PLANTED("null_kernel"),
       0,
       TENON_INVALID,
       1,
       {"null_kernel::op: KERNEL 'cpu' has no function"}},
      {PLANTED("must_tag"), 0, TENON_UNIMPLEMENTED, 1, {"item 4711", "update libtenon"}},
      {PLANTED("doc_first"), 0, TENON_INVALID, 1, {"before the first operator"}},
      {PLANTED("no_schema"), 0, TENON_INVALID, 1, {"no schema"}},
      {PLANTED("bad_schema"), 0, TENON_INVALID, 1, {"op(Tensor x,, int n) -> Tensor", "column 13"}},
      {PLANTED("twice"), 0, TENON_EXISTS, 1, {"twice::op is defined twice"}},
      {PLANTED("unbound"), 0, TENON_INVALID, 1, {"unbound::op", "'T'"}},
      {PLANTED("no_gradient"),
       0,
       TENON_NOT_FOUND,
       1,
       {"no_gradient::op: gradient", "no_gradient::op_backward"}},
      {PLANTED("no_infer"), 0, TENON_INVALID, 1, {"no_infer::op: nothing says what shape"}},
      {PLANTED("refuses"),
       0,
       TENON_UNAVAILABLE,
       1,
       {"the licence server at port 4711 does not answer"}},
      {PLANTED("no_uses"), 0, TENON_NOT_FOUND, 1, {"no_uses::op uses nowhere::add"}},
      {PLANTED("bad_word"), 0, TENON_INVALID, 1, {"quickly"}},
      {PLANTED("bad_loop"), 0, TENON_INVALID, 1, {"bad_loop::op"}},
      {PLANTED("many"),
       0,
       TENON_INVALID,
       4,
       {"one(Tensor x -> Tensor", "f33", "many::three", "nowhere::add"}},
  };
  check_faults(faults, sizeof faults / sizeof *faults);
}

/* policy */

TEST("strict loading refuses what loading by default only reports") {
  static const fault_t faults[] = {
      {SCRATCH "/constructor.so",
       TENON_LOAD_STRICT,
       TENON_DENIED,
       1,
       {"set_up by DT_INIT_ARRAY, set_up_more by DT_INIT_ARRAY"}},
      {SCRATCH "/init.so", TENON_LOAD_STRICT, TENON_DENIED, 1, {"begin by DT_INIT"}},
      {SCRATCH "/resolver.so", TENON_LOAD_STRICT, TENON_DENIED, 1, {"by GNU_IFUNC"}},
      {SCRATCH "/no_entry.so", TENON_LOAD_STRICT, TENON_INVALID, 1, {"does not export"}},
  };
  static const char *const names[] = {"constructor", "init", "resolver", "no_entry", "good"};
  static const char *const others[4] = {
      "scratch/good.so is writable by others (mode 0646): run chmod go-w on it"};
  static const char *const folder[4] = {"scratch/good.so is writable",
                                        "scratch is writable by everybody"};
  tenon_library_t *library;
  char from[1024], to[1024];
  (void)mkdir(SCRATCH, 0755);
  CHECK(chmod(SCRATCH, 0755) == 0);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(from, sizeof from, TEST_LIBRARIES "/lib%s.so", names[i]);
    snprintf(to, sizeof to, SCRATCH "/%s.so", names[i]);
    remove(to);
    tn_file_t file;
    CHECK_STATUS(tn_file_map(from, &file), TENON_OK);
    FILE *out = fopen(to, "wb");
    CHECK(out && fwrite(file.data, 1, file.size, out) == file.size);
    if (out) fclose(out);
    tn_file_unmap(&file);
    CHECK(chmod(to, 0644) == 0);
  }
  check_faults(faults, sizeof faults / sizeof *faults);
  CHECK(chmod(SCRATCH "/good.so", 0646) == 0);
  check_refused(SCRATCH "/good.so", TENON_LOAD_STRICT, TENON_DENIED, 1, others);
  CHECK(chmod(SCRATCH, 0777) == 0);
  check_refused(SCRATCH "/good.so", TENON_LOAD_STRICT, TENON_DENIED, 2, folder);
  CHECK(chmod(SCRATCH, 0755) == 0 && chmod(SCRATCH "/good.so", 0644) == 0);
  CHECK_STATUS(
      tenon_library_load(SCRATCH "/good.so", TENON_LOAD_STRICT | TENON_LOAD_UNLOADABLE, &library),
      TENON_OK);
  tenon_library_release(library);
  CHECK_STATUS(tenon_library_load(SCRATCH "/constructor.so", TENON_LOAD_UNLOADABLE, &library),
               TENON_OK);
  tenon_library_release(library);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(to, sizeof to, SCRATCH "/%s.so", names[i]);
    remove(to);
  }
  CHECK(rmdir(SCRATCH) == 0);
}

/* libraries that load */

/* Calls a pointwise operator. */
static float first_result(const char *name, float x) {
  const tenon_op_t *op;
  int64_t shape[1] = {1};
  float result = NAN;
  tenon_tensor_t *input = NULL;
  tenon_tensor_t *output = NULL;
  if (tenon_op_find(name, &op) != TENON_OK) return result;
  if (tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &input) == TENON_OK) {
    *(float *)input->data = x;
    if (tenon_op_call(op, NULL, &input, &output, 0) == TENON_OK) result = *(float *)output->data;
  }
  tenon_tensor_release(output);
  tenon_tensor_release(input);
  return result;
}

TEST("a library loads once and its operators work") {
  tenon_library_t *first, *again, *linked;
  int32_t before = count_ops();
  CHECK_STATUS(tenon_library_load(PLANTED("good"), 0, &first), TENON_OK);
  CHECK(!strcmp(tenon_library_name(first), "good"));
  CHECK(!strcmp(tenon_library_version(first), "1.0.0"));
  CHECK_TEXT(tenon_library_path(first), "/libgood.so");
  CHECK(tenon_library_op_count(first) == 2);
  CHECK(tenon_library_op(first, 0) && tenon_library_op(first, 1));
  CHECK(!tenon_library_op(first, 2) && !tenon_library_op(first, -1));
  CHECK(count_ops() == before + 2);
  CHECK(first_result("good::doubles", 21) == 42);
  CHECK_STATUS(tenon_library_load(PLANTED("good"), 0, &again), TENON_OK);
  CHECK(again == first);
  remove(SCRATCH ".so");
  CHECK(symlink(PLANTED("good"), SCRATCH ".so") == 0);
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/../libraries/scratch.so", 0, &linked), TENON_OK);
  CHECK(linked == first);
  CHECK(count_ops() == before + 2);
  tenon_library_retain(first);
  tenon_library_release(first);
  tenon_library_release(linked);
  tenon_library_release(again);
  tenon_library_release(first);
  /* The library stays loaded. */
  CHECK(first_result("good::doubles", 4) == 8);
  remove(SCRATCH ".so");
}

TEST("an operator that another library has defined is refused") {
  static const char *const texts[4] = {
      "operator good::doubles is there already, from library good at ", "libgood.so"};
  CHECK_STATUS(tenon_library_load(PLANTED("good"), 0, NULL), TENON_OK);
  check_refused(PLANTED("takes_name"), 0, TENON_EXISTS, 1, texts);
  CHECK(first_result("good::doubles", 3) == 6);
}

TEST("a library newer than the host loads") {
  tenon_library_t *library;
  CHECK_STATUS(tenon_library_load(PLANTED("newer"), 0, &library), TENON_OK);
  CHECK(!strcmp(tenon_library_version(library), "7.0.0"));
  CHECK(tenon_library_op_count(library) == 1);
  tenon_library_release(library);
}

TEST("libraries that define the same symbol each use their own") {
  CHECK_STATUS(tenon_library_load(PLANTED("twin_one"), 0, NULL), TENON_OK);
  CHECK_STATUS(tenon_library_load(PLANTED("twin_two"), 0, NULL), TENON_OK);
  CHECK(first_result("twin_one::value", 0) == 1);
  CHECK(first_result("twin_two::value", 0) == 2);
}

TEST("an unloadable library is unloaded with its last handle") {
  tenon_library_t *library, *again;
  const tenon_op_t *op;
  int32_t before = count_ops();
  for (int round = 0; round < 3; round++) {
    CHECK_STATUS(tenon_library_load(PLANTED("opens"), TENON_LOAD_UNLOADABLE, &library), TENON_OK);
    CHECK_STATUS(tenon_library_load(PLANTED("opens"), TENON_LOAD_UNLOADABLE, &again), TENON_OK);
    CHECK(again == library);
    tenon_library_release(again);
    CHECK_STATUS(tenon_op_find("opens::op", &op), TENON_OK);
    tenon_library_release(library);
    CHECK_STATUS(tenon_op_find("opens::op", &op), TENON_NOT_FOUND);
    CHECK(count_ops() == before);
  }
}

TEST("a library that was also loaded without TENON_LOAD_UNLOADABLE stays") {
  tenon_library_t *library;
  const tenon_op_t *op;
  CHECK_STATUS(tenon_library_load(PLANTED("constructor"), TENON_LOAD_UNLOADABLE, &library),
               TENON_OK);
  CHECK_STATUS(tenon_library_load(PLANTED("constructor"), 0, NULL), TENON_OK);
  tenon_library_release(library);
  CHECK_STATUS(tenon_op_find("constructor::op", &op), TENON_OK);
}

TEST("a library that the system keeps cannot be loaded as unloadable") {
  static const char *const texts[4] = {"TENON_LOAD_UNLOADABLE", "NODELETE"};
  check_refused(PLANTED("pinned"), TENON_LOAD_UNLOADABLE, TENON_DENIED, 1, texts);
  CHECK_STATUS(tenon_library_load(PLANTED("pinned"), 0, NULL), TENON_OK);
}

TEST("a library in use stays until nothing uses it") {
  tenon_library_t *library;
  const tenon_op_t *op;
  tenon_bound_t *bound;
  CHECK_STATUS(tenon_library_load(PLANTED("opens"), TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  CHECK_STATUS(tenon_op_find("opens::op", &op), TENON_OK);
  CHECK_STATUS(tenon_bound_create(op, NULL, &bound), TENON_OK);
  tenon_library_release(library);
  CHECK_STATUS(tenon_op_find("opens::op", &op), TENON_OK);
  tenon_bound_release(bound);
  CHECK_STATUS(tenon_library_load(PLANTED("opens"), TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  tenon_library_release(library);
  CHECK_STATUS(tenon_op_find("opens::op", &op), TENON_NOT_FOUND);
}

/* names */

TEST("a name is searched in TENON_LIBRARY_PATH") {
  static const char *const unset[4] = {
      "cannot load good: a name without '/' is looked for in TENON_LIBRARY_PATH, which is not set"};
  static const char *const absent[4] = {
      "cannot load nobody: not found in the folders of TENON_LIBRARY_PATH (/nowhere:"};
  static const char *const names[] = {"newer", "newer.so", "libnewer", "libnewer.so"};
  tenon_library_t *first, *library;
  CHECK(unsetenv("TENON_LIBRARY_PATH") == 0);
  check_refused("good", 0, TENON_NOT_FOUND, 1, unset);
  CHECK(setenv("TENON_LIBRARY_PATH", "/nowhere::" TEST_LIBRARIES ":", 1) == 0);
  check_refused("nobody", 0, TENON_NOT_FOUND, 1, absent);
  CHECK_STATUS(tenon_library_load(PLANTED("newer"), 0, &first), TENON_OK);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    CHECK_STATUS(tenon_library_load(names[i], 0, &library), TENON_OK);
    CHECK(library == first);
    tenon_library_release(library);
  }
  tenon_library_release(first);
  CHECK(unsetenv("TENON_LIBRARY_PATH") == 0);
}

TEST("a name is not searched in the current folder") {
  static const char *const unset[4] = {
      "is not set", "; the file of that name in the current folder is ./libopens.so"};
  static const char *const elsewhere[4] = {
      "/nowhere", "; the file of that name in the current folder is ./libopens.so"};
  char before[4096];
  tenon_library_t *library = NULL;
  CHECK(getcwd(before, sizeof before) && chdir(TEST_LIBRARIES) == 0);
  check_refused("libopens.so", 0, TENON_NOT_FOUND, 1, unset);
  CHECK(setenv("TENON_LIBRARY_PATH", "/nowhere", 1) == 0);
  check_refused("libopens.so", 0, TENON_NOT_FOUND, 1, elsewhere);
  CHECK(unsetenv("TENON_LIBRARY_PATH") == 0);
  CHECK_STATUS(tenon_library_load("./libopens.so", TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  tenon_library_release(library);
  CHECK(chdir(before) == 0);
}

/* the report */

TEST("the report describes a file without running it") {
  static const struct {
    const char *path;
    const char *texts[4];
  } cases[] = {
      {PLANTED("good"),
       {"kind:          shared object\n", "entry:         tenon_library()\n",
        "\nproblems: none\n"}},
      {PLANTED("constructor"),
       {"initialisers:  set_up by DT_INIT_ARRAY, set_up_more by DT_INIT_ARRAY (the rule inert",
        "problems: none"}},
      {PLANTED("needs_gone"),
       {"libplanted_gone.so.1 (not found)", "other exports: call_gone\n",
        "problems:\n  - it needs libplanted_gone"}},
      {PLANTED("pinned"), {"unloadable:    no, because of its flag NODELETE"}},
      {PLANTED("no_entry"),
       {"entry:         none\n", "  - it does not export the function tenon_library"}},
      {SCRATCH ".so", {"kind:          text\n", "problems:\n  - not a shared library"}},
  };
  write_text(SCRATCH ".so", "hello\n");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = NULL;
    uint32_t loadable = 2;
    CHECK_STATUS(tenon_library_inspect(cases[i].path, &text, &loadable), TENON_OK);
    for (int k = 0; k < 4 && cases[i].texts[k] && text; k++)
      CHECK_TEXT(text, cases[i].texts[k]);
    CHECK(loadable == (text && strstr(text, "problems: none") ? 1 : 0));
    tenon_text_release(text);
  }
  remove(SCRATCH ".so");
  char *text;
  CHECK(tenon_library_inspect("/nowhere/libx.so", &text, NULL) == TENON_NOT_FOUND && text == NULL);
  CHECK(!strcmp(tenon_error(), "cannot inspect /nowhere/libx.so: No such file or directory"));
}

/* failing allocations, threads */

TEST("when memory runs out, loading fails and leaves nothing behind") {
  int32_t before = count_ops();
  tenon_status_t status = TENON_MEMORY;
  for (int64_t n = 1; status != TENON_OK && n < 10000; n++) {
    tenon_library_t *library = NULL;
    fault_memory(n, false);
    status = tenon_library_load(PLANTED("opens"), TENON_LOAD_UNLOADABLE, &library);
    fault_end();
    CHECK(status == TENON_OK || status == TENON_MEMORY);
    tenon_library_release(library);
    CHECK(count_ops() == before);
  }
  CHECK(status == TENON_OK);
  status = TENON_MEMORY;
  /* Composing a message may fail as well. */
  for (int64_t n = 1; status == TENON_MEMORY && n < 10000; n++) {
    fault_memory(n, false);
    status = tenon_library_load(PLANTED("many"), 0, NULL);
    fault_end();
    CHECK(count_ops() == before);
  }
  CHECK(status == TENON_INVALID);
  status = TENON_MEMORY;
  for (int64_t n = 1; status == TENON_MEMORY && n < 10000; n++) {
    char *text = NULL;
    fault_memory(n, false);
    status = tenon_library_inspect(PLANTED("needs_gone"), &text, NULL);
    fault_end();
    CHECK((status == TENON_OK) == (text != NULL));
    tenon_text_release(text);
  }
  CHECK(status == TENON_OK);
}

static void load_and_release(void *argument) {
  int *failures = argument;
  for (int i = 0; i < 50; i++) {
    tenon_library_t *library;
    if (tenon_library_load(PLANTED("opens"), TENON_LOAD_UNLOADABLE, &library) != TENON_OK)
      ++*failures;
    else
      tenon_library_release(library);
  }
}

TEST("several threads may load and release libraries at once") {
  tn_spawned_t threads[4];
  int failures[4] = {0};
  int32_t before = count_ops();
  for (int i = 0; i < 4; i++)
    CHECK(tn_spawn(&threads[i], load_and_release, &failures[i]));
  for (int i = 0; i < 4; i++)
    tn_join(&threads[i]);
  for (int i = 0; i < 4; i++)
    CHECK(failures[i] == 0);
  CHECK(count_ops() == before);
}

static int destroyed;
static void destroy(void *context) { destroyed += *(int *)context; }

TEST("a library that is linked in can have a context, which is destroyed") {
  static const tenon_item_t items[] = {{TENON_TAG_END, 0, 0, 0, 0}};
  tenon_descriptor_t descriptor = {sizeof descriptor, TENON_ABI, TENON_LAYOUT, 0,
                                   "linked",          "2.1",     items};
  int one = 1;
  tenon_library_t *library = NULL;
  CHECK_STATUS(tenon_library_add(&descriptor, &one, destroy, &library), TENON_OK);
  CHECK(!strcmp(tenon_library_name(library), "linked"));
  CHECK(!strcmp(tenon_library_path(library), ""));
  CHECK(tenon_library_op_count(library) == 0);
  tenon_library_release(library);
  CHECK(destroyed == 0);
  tenon_shutdown();
  CHECK(destroyed == 1);
  descriptor.layout = 1;
  descriptor.required = 2;
  CHECK_STATUS(tenon_library_add(&descriptor, &one, destroy, &library), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "cannot add library linked: 2 problems:\n  - layout");
  CHECK_STATUS(tenon_library_add(NULL, NULL, NULL, &library), TENON_INVALID);
}

TEST("a handle can be released after shutdown") {
  tenon_library_t *library, *again;
  const tenon_op_t *op;
  CHECK_STATUS(tenon_library_load(PLANTED("opens"), TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  tenon_shutdown();
  CHECK_STATUS(tenon_op_find("opens::op", &op), TENON_NOT_FOUND);
  CHECK_STATUS(tenon_library_load(PLANTED("opens"), 0, &again), TENON_OK);
  tenon_library_release(library);
  CHECK_STATUS(tenon_op_find("opens::op", &op), TENON_OK);
  tenon_library_release(again);
}
