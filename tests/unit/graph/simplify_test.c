/* Nodes without effect are removed, and zero padding moves into the convolution that follows:
 * results stay the same, and other padding stays. Expected numbers are worked out by hand: a kernel
 * of ones sums the elements under it. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#define IMAGE "f32[1,1,2,2] 1 2 3 4"
/* sums of 3 x 3 over a 2 x 2 image with a border of zeros */
#define SUMS "f32[1,1,2,2] 10 10 10 10"

typedef struct padding_t {
  const char *pads;
  const char *mode;
  const char *fill;
  const char *conv; /* fill NULL: no fill value */
  const char *expected;
  bool goes; /* whether the padding node is removed */
} padding_t;

static const padding_t paddings[] = {
    {"i64[8] 0 0 1 1 0 0 1 1", NULL, NULL, NULL, SUMS, true},
    {"i64[8] 0 0 1 1 0 0 1 1", NULL, "f32[] 0", "strides=[1, 1]", SUMS, true},
    {"i64[8] 0 0 0 0 0 0 0 0", NULL, NULL, "pads=[1, 1, 1, 1]", SUMS, true},
    {"i64[8] 0 0 1 0 0 0 1 0", NULL, NULL, "pads=[0, 1, 0, 1]", SUMS, true},
    {"i64[8] 0 0 1 1 0 0 1 1", NULL, "f32[] 1", NULL, "f32[1,1,2,2] 15 15 15 15", false},
    {"i64[8] 0 0 1 1 0 0 1 1", "mode='edge'", NULL, NULL, "f32[1,1,2,2] 18 21 24 27", false},
    {"i64[8] 0 0 1 1 0 0 1 1", NULL, NULL, "auto_pad='valid'", SUMS, false},
    {"i64[8] 0 0 -1 1 0 0 2 1", NULL, NULL, NULL, "f32[1,1,1,2] 7 7", false},
};

static void check_padding(const padding_t *p, uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 4);
  tenon_edge_t w = graph_constant(b, "w", "f32[1,1,3,3] 1 1 1 1 1 1 1 1 1");
  tenon_edge_t y;
  tenon_edge_t pads = graph_constant(b, "pads", p->pads);
  tenon_edge_t fill = p->fill ? graph_constant(b, "fill", p->fill) : -1;
  graph_node(b, "the_padding", "core::pad", p->mode, (tenon_edge_t[]){x, pads, fill, -1}, &y, 1);
  graph_node(b, "the_sum", "core::conv", p->conv, (tenon_edge_t[]){y, w, -1, -1}, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, flags);
  char *plan = NULL;
  CHECK_GRAPH(e, TEXTS(IMAGE), TEXTS(p->expected));
  CHECK_STATUS(tenon_executable_dump(e, "plan", &plan), TENON_OK);
  CHECK(plan && (strstr(plan, "nodes 0 to 0,") != NULL) == (p->goes && !flags));
  tenon_text_release(plan);
  tenon_executable_release(e);
}

TEST("zero padding before a convolution becomes the convolution's own, and other padding stays") {
  for (size_t i = 0; i < sizeof paddings / sizeof *paddings; i++)
    for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags += TENON_COMPILE_PLAIN)
      check_padding(&paddings[i], flags);
}

TEST("nothing is left behind") { tenon_shutdown(); }
