/* A device for the tests of offloading: sim behind another device table, which can make invalid
 * claims and which counts calls. Also graphs, and checks of what becomes of the claims. Include
 * after operators.h. */
#ifndef TENON_TESTS_CLAIMER_H
#define TENON_TESTS_CLAIMER_H

#include <dirent.h>
#include <unistd.h>

#include "there.h"

#include "device/group.h"

TENON_C const tenon_descriptor_t *tenon_library_sim(void);

/* a device that follows instructions */

static tenon_device_table_t table, original;
static struct {
  uint32_t nodes[8];
  /* The nodes of a claim; a count of 0 while is_wrong is set makes an empty claim. */
  uint32_t count;
} wrong[2];
static int is_wrong, wrong_count, is_own, refuses_load, made, loaded, freed, runs;
static tenon_status_t claim_status;

static tenon_status_t claim(tenon_on_t on, const tenon_graph_view_t *view, const char *settings,
                            tenon_claims_t *out) {
  if (claim_status) return tenon_fail(on, claim_status, "the claimer has no time");
  if (!is_wrong) return original.claim(on, view, settings, out);
  for (int i = 0; i < wrong_count; i++)
    TENON_TRY(out->take(out, wrong[i].count, wrong[i].nodes, "a wrong claim"));
  return TENON_OK;
}

/* With is_own, a subgraph returns its only input doubled, of any shape, and 0 for negative
 * elements. */
static tenon_status_t twice_run(void *argument, void *const *addresses, char *message) {
  const float *x = addresses[0];
  float *y = addresses[1];
  (void)message;
  for (int64_t i = 0; i < *(int64_t *)argument; i++)
    y[i] = x[i] < 0 ? 0 : 2 * x[i];
  return TENON_OK;
}

static tenon_status_t compile(tenon_on_t on, const tenon_graph_view_t *view, const char *settings,
                              void **out) {
  made++;
  if (!is_own) return original.group_compile(on, view, settings, out);
  CHECK(view->node_count == 2 && view->input_count == 1 && view->output_count == 1);
  *out = &table;
  return TENON_OK;
}

static tenon_status_t group_run(tenon_on_t on, void *stream, const tenon_group_run_t *run) {
  runs++;
  if (run->group != &table) return original.group_run(on, stream, run);
  const tenon_tensor_t *x = run->inputs[0];
  const tenon_tensor_t *y = run->outputs[0];
  int64_t count = tenon_count(x);
  CHECK(count == tenon_count(y));
  sim_range_t ranges[2] = {{{x->data, x->byte_offset}, (uint64_t)count * 4, 0, 0},
                           {{y->data, y->byte_offset}, (uint64_t)count * 4, 1, 0}};
  return count ? sim->enqueue(on, stream, run->ticket, "twice", twice_run, &count, sizeof count, 2,
                              ranges)
               : TENON_OK;
}

static tenon_status_t save(tenon_on_t on, void *group, tenon_sink_t *out) {
  if (group == &table) return tenon_fail(on, TENON_UNIMPLEMENTED, "not saved");
  return original.group_save(on, group, out);
}

static tenon_status_t load(tenon_on_t on, const void *bytes, uint64_t size, void **out) {
  loaded++;
  return refuses_load ? tenon_fail(on, TENON_INVALID, "of another age")
                      : original.group_load(on, bytes, size, out);
}

static void group_free(tenon_on_t on, void *group) {
  freed++;
  if (group != &table) original.group_free(on, group);
}

static char folder[] = "/tmp/tenon-claims-XXXXXX";

static inline tenon_device_t start(void) {
  static tenon_item_t items[64];
  static tenon_descriptor_t library;
  static int is_there;
  is_wrong = wrong_count = is_own = refuses_load = made = loaded = freed = runs = 0;
  claim_status = TENON_OK;
  if (!is_there) {
    uint32_t count = 0;
    library = *tenon_library_sim();
    for (const tenon_item_t *item = library.items; item->tag != TENON_TAG_END; item++) {
      items[count] = *item;
      if (item->tag == TENON_TAG_DEVICE) {
        table = original = *(const tenon_device_table_t *)item->text;
        items[count].text = &table;
        table.claim = claim;
        table.group_compile = compile;
        table.group_run = group_run;
        table.group_save = save;
        table.group_load = load;
        table.group_free = group_free;
      }
      count++;
    }
    library.items = items;
    is_there = 1;
    setenv("TENON_CACHE", mkdtemp(folder), 1);
  }
  tenon_device_t device = {0, 0};
  /* This call makes sure that the runtime runs. */
  if (tenon_device_find("null", 0, &device) != TENON_OK) return device;
  if (tenon_library_add(&library, NULL, NULL, NULL) == TENON_OK) {
    tenon_registration_t *all;
    CHECK_STATUS(tenon_fallback_add("sim", tenon_fallback_cpu, NULL, NULL, 0, &all), TENON_OK);
  }
  return sim_open(0, "claim=1,check=fail,fault=0");
}

static inline void empty_cache(void) {
  DIR *list = opendir(folder);
  char path[600];
  for (struct dirent *entry; list && (entry = readdir(list));) {
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    (void)unlink(path);
  }
  if (list) closedir(list);
}

/* graphs */

static inline tenon_edge_t two(tenon_builder_t *b, const char *node, const char *op, tenon_edge_t x,
                               tenon_edge_t y) {
  tenon_edge_t inputs[4] = {x, y, -1, -1};
  tenon_edge_t out;
  graph_node(b, node, op, NULL, inputs, &out, 1);
  return out;
}

/* y = relu(x w + b), z = y y, where x is [2, 3]. */
static inline tenon_builder_t *layers(const char *bias) {
  tenon_builder_t *b = graph_begin();
  tenon_axis_t axes[2] = {{2, NULL}, {3, NULL}};
  tenon_edge_t x;
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2, axes, &x), TENON_OK);
  tenon_edge_t w = graph_constant(b, "w", "f32[3, 2] 1 2 3 4 5 6");
  tenon_edge_t product = two(b, "product", "core::matmul", x, w);
  tenon_edge_t sum = two(b, "sum", "core::add", product, graph_constant(b, "b", bias));
  tenon_edge_t y = two(b, "positive", "core::relu", sum, -1);
  graph_output(b, "y", y);
  graph_output(b, "z", two(b, "square", "core::mul", y, y));
  return b;
}
static const char *const given[] = {"f32[2, 3] 1 2 3 4 5 6", NULL};
static const char *const wanted[] = {"f32[2, 2] 0 8 19 44", "f32[2, 2] 0 64 361 1936", NULL};

static inline tenon_executable_t *compiled(tenon_builder_t *b, tenon_device_t device,
                                           const char *claims) {
  return graph_compile_with(b, (tenon_compile_t){.device = device, .claims = claims});
}

static inline void check_dump(tenon_executable_t *e, const char *what, const char *part) {
  char *text = NULL;
  CHECK_STATUS(tenon_executable_dump(e, what, &text), TENON_OK);
  CHECK_TEXT(text, part);
  tenon_text_release(text);
}

/* Sets claim `group` of the invalid claims, and their number to `group` + 1. */
static inline void claims_of(int group, uint32_t count, const uint32_t *nodes) {
  wrong_count = group + 1;
  wrong[group].count = count;
  for (uint32_t i = 0; i < count; i++)
    wrong[group].nodes[i] = nodes[i];
}

/* The last test calls this. */
static inline void end(void) {
  tenon_shutdown();
  empty_cache();
  CHECK(rmdir(folder) == 0);
}

#endif
