/* A graph with two outputs that are given: both read both inputs, and an output lies in the memory
 * of an input, or of the other output.  Prints what is wrong. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

static int failed;

static void expect(int is, const char *what) {
  if (is) return;
  failed++;
  printf("wrong: %s: %s\n", what, tenon_error());
}

static tenon_executable_t *compile_graph(void) {
  tenon_builder_t *b = NULL;
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  const tenon_op_t *add = NULL, *sub = NULL;
  tenon_edge_t x, y, sum, difference;
  const tenon_axis_t axis = {.extent = 4};
  tenon_op_find("core::add", &add);
  tenon_op_find("core::sub", &sub);
  tenon_builder_create(&b);
  tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 1, &axis, &x);
  tenon_builder_input(b, "y", tenon_dtype(TENON_F32), 1, &axis, &y);
  const tenon_operand_t operands[] = {{.edges = &x, .count = 1}, {.edges = &y, .count = 1}};
  tenon_builder_node(b, "a", add, NULL, operands, &sum, 1);
  tenon_builder_node(b, "s", sub, NULL, operands, &difference, 1);
  tenon_builder_output(b, "sum", sum);
  tenon_builder_output(b, "difference", difference);
  expect(tenon_builder_finish(b, &graph) == TENON_OK, "the graph");
  expect(tenon_executable_create(graph, NULL, &e) == TENON_OK, "the executable");
  tenon_graph_release(graph);
  tenon_builder_release(b);
  return e;
}

int main(void) {
  float memory[16];
  int64_t four = 4;
  int64_t one = 1;
  tenon_tensor_t x, y, s, d;
  if (tenon_start() != TENON_OK) return 2;
  tenon_executable_t *e = compile_graph();
  if (failed) return 2;
  const tenon_dtype_t f32 = tenon_dtype(TENON_F32);
  for (int shift = -3; shift <= 3; shift++) {
    float a[4], b[4];
    for (int i = 0; i < 16; i++)
      memory[i] = (float)(i * i);
    tenon_tensor_view(&x, memory + 4, f32, 1, &four, &one, NULL);
    tenon_tensor_view(&y, memory + 8, f32, 1, &four, &one, NULL);
    tenon_tensor_view(&s, memory + 4 + shift, f32, 1, &four, &one, NULL);
    tenon_tensor_view(&d, memory + 8 + shift, f32, 1, &four, &one, NULL);
    memcpy(a, memory + 4, sizeof a);
    memcpy(b, memory + 8, sizeof b);
    tenon_tensor_t *out[] = {&s, &d};
    expect(tenon_executable_run(e, (tenon_tensor_t *[]){&x, &y}, out, NULL) == TENON_OK, "a run");
    for (int i = 0; i < 4; i++)
      expect(((float *)s.data)[i] == a[i] + b[i] && ((float *)d.data)[i] == a[i] - b[i], "values");
  }
  tenon_tensor_view(&s, memory + 12, f32, 1, &four, &one, NULL);
  tenon_tensor_view(&d, memory + 11, f32, 1, &four, &one, NULL);
  tenon_tensor_t *both[] = {&s, &d};
  tenon_status_t status = tenon_executable_run(e, (tenon_tensor_t *[]){&x, &y}, both, NULL);
  expect(status == TENON_INVALID && strstr(tenon_error(), "'sum' overlaps output 'difference'"),
         "two outputs");
  tenon_executable_release(e);
  return failed != 0;
}
