/* Pieces of random graphs with bodies: branches and loops. */
#ifndef TENON_TESTS_RANDOM_CONTROL_H
#define TENON_TESTS_RANDOM_CONTROL_H

#include "images.h"

enum { CAPTURED_MOST = 3 };

/* Begins a body with inputs like some values of the draft around it. */
static draft_t *begin_body(draft_t *d) {
  draft_t *body = create_draft(tenon_random(d->seed, d->at++) + 1ull);
  body->dtype = d->dtype;
  body->is_body = true;
  body->is_dynamic = d->is_dynamic;
  body->is_nameless = d->is_nameless;
  body->most = d->most;
  return body;
}

static int32_t add_argument(draft_t *body, const value_t *like) {
  return add_input(body, like->dtype, like->rank, like->shape, like->most);
}

/* Adds a few nodes to x whose results have its shape. */
static int32_t add_steps(draft_t *body, int32_t x) {
  const value_t like = body->values[x];
  int32_t y = x;
  for (uint32_t steps = 1 + pick(body, 4); steps > 0; steps--) {
    const uint32_t way = pick(body, 5);
    if (way == 0) y = add_activation(body, y);
    if (way == 1 && like.rank) y = add_like(body, "core::softmax", NULL, y, 1);
    if (way == 2) y = add_sum(body, y, add_scalar(body, like.dtype, 0.25));
    if (way == 3) y = add_like(body, "rnd::bend", NULL, bounded(body, y, 4), 6);
    if (way == 4) {
      const int32_t z = (int32_t)pick(body, (uint32_t)body->value_count);
      const bool fits = body->values[z].dtype == like.dtype && !body->values[z].constant &&
                        same_shape(&body->values[z], &like);
      if (fits) y = add_mul(body, bounded(body, y, 4), bounded(body, z, 4));
    }
    y = bounded(body, y, 8);
  }
  return y;
}

/* Values that bodies read: the first one is a float. */
static int32_t find_captured(draft_t *d, int32_t *captured) {
  captured[0] = find_bounded(d, 4);
  if (captured[0] < 0) return 0;
  const int32_t count = 1 + (int32_t)pick(d, CAPTURED_MOST);
  for (int32_t i = 1; i < count; i++) {
    captured[i] = (int32_t)pick(d, (uint32_t)d->value_count);
    if (d->values[captured[i]].constant || d->values[captured[i]].keeps) captured[i] = captured[0];
  }
  return count;
}

static void fill_branch(draft_t *d, draft_t *body, const int32_t *captured, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    add_argument(body, &d->values[captured[i]]);
  body->outputs[0] = add_steps(body, 0);
  body->output_count = 1;
}

/* A condition without axes: a constant, an input, or about the extents of x. */
static int32_t add_decision(draft_t *d, int32_t x) {
  const uint32_t way = pick(d, 3);
  if (way == 0 || d->is_body) return add_scalar(d, TENON_BOOL, pick(d, 2));
  if (way == 1) return add_input(d, TENON_BOOL, 0, NULL, 1);
  begin_move(d, "core::size", x);
  const int32_t size = add_result(d, (value_t){.dtype = TENON_I64, .most = ELEMENTS_MOST});
  const int32_t limit = add_scalar(d, TENON_I64, 24);
  return add_two(d, "core::greater", size, limit, TENON_BOOL, 1);
}

static int32_t add_branch(draft_t *d) {
  int32_t captured[CAPTURED_MOST];
  const int32_t count = find_captured(d, captured);
  if (!count) return -1;
  const int32_t decision = add_decision(d, captured[0]);
  part_t *part = add_part(d, "core::if");
  read_value(d, part, decision);
  read_list(d, part, captured, count);
  snprintf(part->attrs, sizeof part->attrs, "count=1");
  part->body_names[0] = "then";
  part->body_names[1] = "else";
  for (int k = 0; k < 2; k++) {
    part->bodies[k] = begin_body(d);
    fill_branch(d, part->bodies[k], captured, count);
  }
  value_t value = d->values[captured[0]];
  value.most = 8;
  value.is_exact = false;
  return add_result(d, value);
}

/* body(iteration, condition, x, y, more) -> (condition, f(y), g(x), g(x) again) */
static draft_t *make_loop_body(draft_t *d, int32_t x, const int32_t *captured, int32_t count,
                               bool stacks) {
  draft_t *body = begin_body(d);
  const int32_t iteration = add_input(body, TENON_I64, 0, NULL, 5);
  const int32_t condition = add_input(body, TENON_BOOL, 0, NULL, 1);
  int32_t states[2];
  for (int i = 0; i < 2; i++)
    states[i] = add_argument(body, &d->values[x]);
  for (int32_t i = 0; i < count; i++)
    add_argument(body, &d->values[captured[i]]);
  body->outputs[0] =
      chance(d, 50) ? condition : add_like(body, "core::identity", NULL, condition, 1);
  for (int i = 0; i < 2; i++) {
    int32_t y = add_steps(body, states[1 - i]);
    if (chance(d, 40)) y = add_sum(body, y, add_cast(body, iteration, d->values[x].dtype));
    body->outputs[1 + i] = add_like(body, "core::tanh", NULL, y, 1);
  }
  body->outputs[3] = body->outputs[2];
  body->output_count = stacks ? 4 : 3;
  return body;
}

static int32_t add_loop(draft_t *d) {
  int32_t captured[CAPTURED_MOST];
  const int32_t count = find_captured(d, captured);
  if (!count) return -1;
  const int32_t x = captured[0];
  const int32_t states[2] = {x, add_like(d, "core::neg", NULL, x, d->values[x].most)};
  const bool is_known = d->is_body || chance(d, 60);
  const uint32_t times = pick(d, 4);
  const int32_t trips =
      is_known ? add_scalar(d, TENON_I64, times) : add_input(d, TENON_I64, 0, NULL, 3);
  const bool stacks = is_known && times > 0 && chance(d, 40) && d->values[x].rank < RANK_MOST;
  const int32_t begins = chance(d, 30) ? add_scalar(d, TENON_BOOL, 1) : -1;
  draft_t *body = make_loop_body(d, x, captured, count, stacks);
  part_t *part = add_part(d, "core::loop");
  read_list(d, part, states, 2);
  read_list(d, part, captured, count);
  read_value(d, part, trips);
  read_value(d, part, begins);
  snprintf(part->attrs, sizeof part->attrs, "count=%d", stacks ? 3 : 2);
  part->body_names[0] = "body";
  part->bodies[0] = body;
  value_t value = d->values[x];
  value.most = fmax(value.most, 1);
  value.is_exact = false;
  const int32_t first = add_result(d, value);
  const int32_t second = add_result(d, value);
  if (!stacks) return chance(d, 50) ? first : second;
  for (int32_t i = value.rank; i > 0; i--)
    value.shape[i] = value.shape[i - 1];
  value.shape[0] = fixed((int32_t)times);
  value.rank++;
  return add_result(d, value);
}

#endif
