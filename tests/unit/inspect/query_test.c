/* Queries about keys, dispatch tables and registrations, and the check that a table matches its
 * registrations. */
#include "check.h"
#include "tensors.h"

#include "operators.h"
#include "probes.h"

#include "operator/library.h"
#include "operator/table.h"

static double id[8] = {0, 1, 2, 3, 4, 5, 6, 7};

static void check_same(tenon_status_t status, char **text, const char *expected, int line) {
  check_status(status, TENON_OK, tenon_error(), __FILE__, line, "a text");
  if (status != TENON_OK) return;
  check_report(strcmp(*text, expected) == 0, __FILE__, line, expected, *text);
  tenon_text_release(*text);
}
#define CHECK_SAME(status, text, expected) check_same((status), &(text), (expected), __LINE__)

/* keys */

TEST("each key has a name and a position, and keys of higher positions are asked first") {
  static const char *const ascending[] = {"cpu",  "meta",     "strided",        "layout",
                                          "view", "autograd", "above autograd", "functional",
                                          "mode", "trace"};
  int32_t before = -1;
  int32_t position = 0;
  probe_start();
  for (size_t i = 0; i < sizeof ascending / sizeof *ascending; i++) {
    CHECK_STATUS(tenon_key_parse(ascending[i], &position), TENON_OK);
    CHECK(position > before && strcmp(tenon_key_name(position), ascending[i]) == 0);
    before = position;
  }
  CHECK(!tenon_key_name(-1) && !tenon_key_name(64));
  CHECK_STATUS(tenon_key_parse("autograd cpu", &before), TENON_OK);
  CHECK_STATUS(tenon_key_parse("autograd", &position), TENON_OK);
  CHECK(before == position);
  CHECK_STATUS(tenon_key_parse("composite", &position), TENON_OK);
  CHECK(position == -1);
  CHECK_STATUS(tenon_key_parse("composit", &position), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "no key is called 'composit'");
  CHECK_STATUS(tenon_key_parse("autograd nowhere", NULL), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "no backend is called 'nowhere'");
}

TEST("a device has the key of its backend") {
  tenon_device_t device = {0, 0};
  probe_start();
  CHECK_STATUS(tenon_device_find("npu", 3, &device), TENON_OK);
  CHECK(strcmp(tenon_key_for_device(device), "npu") == 0);
  CHECK(strcmp(tenon_key_for_device((tenon_device_t){1, 0}), "cpu") == 0);
  CHECK(!tenon_key_for_device((tenon_device_t){99, 0}));
}

static tenon_status_t refuse_call(tenon_call_t *call) {
  return tenon_fail(call, TENON_UNAVAILABLE, "refused");
}

TEST("a device of which nothing is registered is refused by name, with those that there are") {
  tenon_device_t device;
  int32_t count;
  tenon_tensor_t *tensor = NULL;
  tenon_registration_t *kernel;
  const int64_t shape[] = {2};
  CHECK_STATUS(tenon_device_find("simm", 1, &device), TENON_OK);
  CHECK_STATUS(tenon_device_count("simm", &count), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "there is no device 'simm'; there are: cpu, meta, ");
  CHECK_TEXT(tenon_error(), "; did you mean 'sim'?");
  CHECK_STATUS(tenon_tensor_create_on(device, (tenon_dtype_t){2, 32, 1}, 1, shape, &tensor),
               TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "there is no device 'simm'; there are: cpu, meta, ");
  CHECK_STATUS(tenon_kernel_add("core::allocate", "simm", refuse_call, NULL, NULL, 0, &kernel),
               TENON_OK);
  CHECK_STATUS(tenon_device_count("simm", &count), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "backend simm has no plug-in");
  CHECK_STATUS(tenon_tensor_create_on(device, (tenon_dtype_t){2, 32, 1}, 1, shape, &tensor),
               TENON_UNAVAILABLE);
  tenon_registration_release(kernel);
  CHECK_STATUS(tenon_device_count("simm", &count), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "there is no device 'simm'");
}

TEST("a graph is not compiled for a device that does not exist") {
  tenon_device_t device;
  tenon_graph_t *graph = NULL;
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  CHECK_STATUS(tenon_builder_output(b, "y", graph_step(b, "core::neg", NULL, x)), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  tenon_executable_t *executable = NULL;
  CHECK_STATUS(tenon_device_find("simm", 0, &device), TENON_OK);
  tenon_compile_t options = {.size = sizeof options, .device = device};
  CHECK_STATUS(tenon_executable_create(graph, &options, &executable), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "there is no device 'simm'; there are: cpu, meta, ");
  tenon_graph_release(graph);
}

TEST("an alias stands for several keys") {
  static const struct {
    const char *key;
    int in_composite;
    int in_explicit;
    int in_autograd;
  } rows[] = {{"cpu", 1, 1, 0},          {"npu", 1, 1, 0},       {"meta", 1, 1, 0},
              {"autograd npu", 1, 0, 1}, {"view", 0, 0, 0},      {"autocast", 0, 0, 0},
              {"nowhere", 0, 0, 0},      {"composite", 1, 0, 0}, {"autograd", 0, 0, 1}};
  tenon_device_t device;
  CHECK_STATUS(tenon_device_find("npu", 0, &device), TENON_OK);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    CHECK(tenon_key_in_alias(rows[i].key, "composite") == rows[i].in_composite);
    CHECK(tenon_key_in_alias(rows[i].key, "composite_explicit") == rows[i].in_explicit);
    CHECK(tenon_key_in_alias(rows[i].key, "autograd") == rows[i].in_autograd);
  }
  CHECK(tenon_key_in_alias("npu", "npu") && !tenon_key_in_alias("npu", "cpu") &&
        !tenon_key_in_alias("npu", "nothing"));
  CHECK(!tenon_key_in_alias("autograd npu", "autograd cpu"));
  CHECK(tenon_key_is_alias("composite") && tenon_key_is_alias("composite_explicit") &&
        tenon_key_is_alias("autograd"));
  CHECK(!tenon_key_is_alias("autograd npu") && !tenon_key_is_alias("cpu") &&
        !tenon_key_is_alias("nowhere"));
}

TEST("the key sets of a thread are the keys that it included and excluded") {
  char *included = NULL;
  char *excluded = NULL;
  probe_start();
  CHECK_STATUS(tenon_key_include("autocast", 1), TENON_OK);
  CHECK_STATUS(tenon_key_include("view", 1), TENON_OK);
  CHECK_STATUS(tenon_key_exclude("view", 1), TENON_OK);
  CHECK_SAME(tenon_thread_keys(&included, &excluded), included, "{view, autocast}");
  CHECK_SAME(TENON_OK, excluded, "{view}");
  CHECK_SAME(tenon_keys_of(NULL, &included), included, "{autocast}");
  CHECK_STATUS(tenon_key_include("autocast", 0), TENON_OK);
  CHECK_STATUS(tenon_key_include("view", 0), TENON_OK);
  CHECK_STATUS(tenon_key_exclude("view", 0), TENON_OK);
  CHECK_SAME(tenon_thread_keys(NULL, &excluded), excluded, "{}");
}

TEST("a tensor has the key of its backend") {
  double value = 1;
  char *text = NULL;
  tenon_tensor_t *t = probe_tensor("npu", &value);
  CHECK_SAME(tenon_keys_of(t, &text), text, "{npu}");
  tenon_tensor_release(t);
}

/* kernels */

TEST("a key's own kernel, a kernel computed for it, and a fallthrough are told apart") {
  probe_start();
  const tenon_op_t *op = op_of("probe::plain");
  const tenon_op_t *view = op_of("probe::view");
  CHECK(tenon_op_has_kernel(op, NULL) && !tenon_op_has_kernel(view, NULL));
  CHECK(tenon_op_has_computed_kernel(view, "cpu") && !tenon_op_has_kernel(view, "cpu"));
  CHECK(!tenon_op_has_computed_kernel(op, "npu") && !tenon_op_has_kernel(op, "npu"));
  tenon_registration_t *composite = probe_add("probe::plain", "composite", &id[1], 0);
  CHECK(tenon_op_has_computed_kernel(op, "npu") && !tenon_op_has_kernel(op, "npu"));
  CHECK(tenon_op_has_kernel(op, "composite") && !tenon_op_has_kernel(op, "composite_explicit"));
  CHECK(tenon_op_has_computed_kernel(op, "autograd npu") &&
        !tenon_op_is_fallthrough(op, "autograd npu"));
  tenon_registration_t *npu = probe_add("probe::plain", "npu f64", &id[2], 0);
  CHECK(tenon_op_has_computed_kernel(op, "npu") && tenon_op_has_kernel(op, "npu") &&
        !tenon_op_is_fallthrough(op, "npu"));
  tenon_registration_t *pass = probe_add("probe::plain", "gpu fallthrough", NULL, 0);
  CHECK(tenon_op_is_fallthrough(op, "gpu") && !tenon_op_has_kernel(op, "gpu") &&
        tenon_op_has_computed_kernel(op, "gpu"));
  CHECK(tenon_op_is_fallthrough(op, "functional") && !tenon_op_is_fallthrough(op, "no_such_key"));
  tenon_registration_t *all = probe_add("probe::plain", "autograd", &id[3], 0);
  CHECK(tenon_op_has_kernel(op, "autograd") && !tenon_op_has_kernel(op, "autograd npu"));
  tenon_registration_release(composite);
  tenon_registration_release(npu);
  tenon_registration_release(pass);
  tenon_registration_release(all);
  CHECK(!tenon_op_has_kernel(op, "npu") && !tenon_op_has_computed_kernel(op, "npu"));
}

static tenon_status_t written_here(tenon_call_t *call) { return probe_kernel(call); }
enum { WRITTEN_AT = __LINE__ - 1 };

TEST("an entry names its kernel, the kernel's library, the rule that chose it, and its function") {
  probe_start();
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_kernel_add("probe::plain", "npu", written_here, &id[1], NULL, 0, &r),
               TENON_OK);
  tenon_slot_info_t info = probe_slot("probe::plain", "npu");
  CHECK(strcmp(info.rule, "kernel") == 0 && strcmp(info.kernel, "npu") == 0 &&
        strcmp(info.library, "program") == 0);
  CHECK(strcmp(info.library_path, "") == 0 && info.function == (tenon_any_fn)written_here);
  CHECK(probe_slot("probe::view", "npu").function == NULL);
  tenon_registration_release(r);
  CHECK_STATUS(tenon_fallback_add("npu", written_here, &id[1], NULL, 0, &r), TENON_OK);
  CHECK(probe_slot("probe::plain", "npu").function == (tenon_any_fn)written_here);
  tenon_registration_release(r);
  CHECK_STATUS(tenon_op_slot(op_of("probe::plain"), "composite", &info), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "'composite' stands for other keys and has no entry of its own");
}

TEST("a function without debug information has no source, and the message says what to do") {
  char *text = NULL;
  if (tenon_function_source((tenon_any_fn)written_here, &text) ==
      TENON_OK) { /* This build has debug information. */
    char expected[60];
    snprintf(expected, sizeof expected, "inspect/query_test.c:%d", (int)WRITTEN_AT);
    CHECK_TEXT(text, expected);
    tenon_text_release(text);
    text = NULL;
  }
  CHECK_STATUS(tenon_function_source(NULL, &text), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(),
             "has no debug information (-g1), or libdw.so.1 (elfutils) is not installed");
  CHECK(text == NULL);
}

TEST("the table lists several kernels of one key, each with the dtypes for which it comes first") {
  probe_start();
  char *text = NULL;
  char line[300];
  tenon_registration_t *doubles = probe_add("probe::plain", "npu f64", &id[1], 0);
  tenon_registration_t *both = probe_add("probe::plain", "npu f32|f16", &id[2], 0);
  /* The number of the kernel for f16. */
  uint64_t first = probe_slot("probe::plain", "npu").number;
  CHECK_STATUS(tenon_op_table(op_of("probe::plain"), &text), TENON_OK);
  snprintf(line, sizeof line,
           "npu                  kernel: npu f32|f16 [program, number %llu] for f16, f32, ",
           (unsigned long long)first);
  CHECK_TEXT(text, line);
  snprintf(line, sizeof line,
           "\n                             npu f64 [program, number %llu] for f64, ",
           (unsigned long long)first - 1);
  CHECK_TEXT(text, line);
  tenon_text_release(text);
  tenon_registration_release(doubles);
  tenon_registration_release(both);
}

TEST("all registrations can be listed, for an operator and for a key") {
  probe_start();
  char *text = NULL;
  char line[200];
  tenon_registration_t *npu = probe_add("probe::plain", "npu", &id[1], 0);
  tenon_registration_t *over = probe_add("probe::plain", "npu", &id[2], TENON_OVERRIDE);
  tenon_registration_t *other = probe_add("probe::differentiable", "npu f64", &id[3], 0);
  tenon_registration_t *own = probe_add("probe::view", "autograd npu", &id[4], 0);
  unsigned long long number = probe_slot("probe::plain", "npu").number;
  CHECK_STATUS(tenon_op_dump(op_of("probe::plain"), &text), TENON_OK);
  CHECK(strncmp(text, "plain(Tensor x) -> Tensor\n  library: probe\n", 43) == 0);
  snprintf(line, sizeof line,
           "  kernel: npu [program, number %llu]\n  kernel: npu [program, number %llu]\n", number,
           number - 1);
  CHECK_TEXT(text, line); /* The overridden kernel is listed, too. */
  CHECK_TEXT(text, "  kernel: elsewhere [probe, number ");
  tenon_text_release(text);
  CHECK_STATUS(tenon_op_dump(op_of("probe::differentiable"), &text), TENON_OK);
  CHECK_TEXT(text, "  gradient: x: none\n");
  tenon_text_release(text);
  CHECK_STATUS(tenon_registrations("npu", &text), TENON_OK);
  snprintf(line, sizeof line,
           "probe::differentiable: npu f64 [program, number %llu]\nprobe::plain: npu [program, "
           "number %llu]\n"
           "probe::plain: npu [program, number %llu]\n",
           number + 1, number, number - 1);
  CHECK(strcmp(text, line) == 0);
  tenon_text_release(text);
  CHECK_STATUS(tenon_registrations("autograd npu", &text), TENON_OK);
  CHECK_TEXT(text, "probe::view: autograd npu [program, number ");
  CHECK(!strstr(text, "probe::plain"));
  tenon_text_release(text);
  CHECK_STATUS(tenon_registrations("no_such_key", &text), TENON_NOT_FOUND);
  tenon_registration_release(npu);
  tenon_registration_release(over);
  tenon_registration_release(other);
  tenon_registration_release(own);
}

/* the check */

TEST("the dispatch tables of all operators are those that their registrations give") {
  probe_start();
  const tenon_op_t *const *ops = NULL;
  int32_t count = 0;
  tenon_registration_t *npu = probe_add("probe::plain", "npu f64", &id[1], 0);
  tenon_registration_t *own = probe_add("probe::plain", "autograd npu", &id[2], 0);
  CHECK_STATUS(tenon_ops_list(&ops, &count), TENON_OK);
  CHECK(count > 100);
  for (int32_t i = 0; i < count; i++)
    CHECK_STATUS(tenon_op_check(ops[i]), TENON_OK);
  tenon_ops_release(ops);
  tenon_registration_release(npu);
  tenon_registration_release(own);
  CHECK_STATUS(tenon_op_check(op_of("probe::plain")), TENON_OK);
}

TEST("a dispatch table that was tampered with is found and repaired") {
  probe_start();
  tenon_registration_t *npu = probe_add("probe::plain", "npu", &id[1], 0);
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu", &id[2], 0);
  tenon_op_t *op = (tenon_op_t *)(uintptr_t)op_of("probe::plain");
  int bit = tn_key_find("npu");
  const tn_table_entry_t **entry = &op->entries[op->index[bit] - 1];
  const tn_table_entry_t *kept = *entry;
  *entry = tn_row_get(TN_BIT_FUNCTIONAL);
  /* The entry of npu is a fallthrough now. */
  CHECK_ANSWER("probe::plain", "npu", 2);
  CHECK_STATUS(tenon_op_check(op), TENON_INTERNAL);
  CHECK_TEXT(
      tenon_error(),
      "probe::plain: its table was wrong: the entry of npu was fallthrough, expected kernel");
  CHECK(*entry == kept);
  CHECK_ANSWER("probe::plain", "npu", 1);
  op->cpu = kept;
  CHECK_STATUS(tenon_op_check(op), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "the entry of cpu was kernel, expected kernel");
  op->mask &= ~TN_KEY(bit);
  op->mask |= TN_KEY(63);
  CHECK_STATUS(tenon_op_check(op), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "the mask was wrong about {npu");
  CHECK_STATUS(tenon_op_check(op), TENON_OK);
  op->autograd = kept;
  op->others = kept;
  CHECK_STATUS(tenon_op_check(op), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "the entry of meta was kernel, expected infer");
  CHECK_TEXT(tenon_error(), "the entry of autograd cpu was kernel, expected fallthrough");
  CHECK_STATUS(tenon_op_check(op), TENON_OK);
  tenon_registration_release(npu);
  tenon_registration_release(cpu);
}

TEST("kernels out of order, an index without an entry, and calls that are not counted are found") {
  probe_start();
  tenon_registration_t *npu = probe_add("probe::plain", "npu", &id[1], 0);
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu", &id[2], 0);
  tenon_op_t *op = (tenon_op_t *)(uintptr_t)op_of("probe::plain");
  uint64_t number = op->kernels->number;
  op->kernels->number = 0;
  CHECK_STATUS(tenon_op_check(op), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "kernel number 0 stands before number ");
  op->kernels->number = number;
  op->index[TN_BIT_VIEW] = 200;
  CHECK_STATUS(tenon_op_check(op), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "the index of view is 200 of ");
  op->index[TN_BIT_VIEW] = 0;
  tn_library_t *library = (tn_library_t *)(uintptr_t)op->kernels->library;
  library->gate = 7;
  CHECK_STATUS(tenon_op_check(op), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "calls of an unloadable library are not counted");
  library->gate = 0;
  CHECK_STATUS(tenon_op_check(op), TENON_OK);
  tenon_registration_release(npu);
  tenon_registration_release(cpu);
  tenon_shutdown();
}
