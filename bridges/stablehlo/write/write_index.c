/* Writes operators that select elements by indices, and that sort. */
#include <string.h>

#include "write/formula.h"

static void write_gather(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_val_t indices = hlo_in(w, 1);
  int32_t axis = hlo_axis(w, hlo_write_int(w, "axis"), a.ndim);
  indices = hlo_from_start(w, indices, a.dims[axis]);
  hlo_give_val(w, 0, hlo_take_along(w, a, indices, axis));
}

/* The position of each element in row-major order, from its index along one axis. */
static void write_gather_elements(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_val_t indices = hlo_in(w, 1);
  int32_t axis = hlo_axis(w, hlo_write_int(w, "axis"), a.ndim);
  int64_t stride = 1;
  int64_t flat[] = {hlo_val_count(&a)};
  hlo_val_t position = {.id = -1};
  indices = hlo_convert(w, hlo_from_start(w, indices, a.dims[axis]), tenon_dtype(TENON_I64));
  for (int32_t i = a.ndim - 1; i >= 0 && !hlo_write_stopped(w); i--) {
    hlo_val_t along = i == axis ? indices : hlo_count_along(w, indices, i);
    hlo_val_t part =
        hlo_binary(w, "stablehlo.multiply", along, hlo_fill(w, &along, (double)stride));
    position = i == a.ndim - 1 ? part : hlo_binary(w, "stablehlo.add", position, part);
    stride *= a.dims[i];
  }
  hlo_give_val(w, 0, hlo_take_along(w, hlo_to_shape(w, a, 1, flat), position, 0));
}

static void write_gather_nd(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_val_t indices = hlo_convert(w, hlo_in(w, 1), tenon_dtype(TENON_I64));
  if (hlo_write_int(w, "batch_dims")) hlo_write_missing(w, "batch_dims above 0");
  if (!hlo_write_stopped(w) && (!indices.ndim || indices.dims[indices.ndim - 1] > a.ndim))
    hlo_write_missing(w, "positions have more coordinates than there are axes");
  if (hlo_write_stopped(w)) return;
  hlo_val_t extents = hlo_int_list(w, a.dims, (int32_t)indices.dims[indices.ndim - 1]);
  const hlo_val_t values[] = {indices, extents};
  indices = hlo_formula(w, "select(LT(a, 0), add(a, b), a)", values, 2, &indices);
  hlo_give_val(w, 0, hlo_take_at(w, a, indices));
}

/* The operation of a scatter for a reduction; NULL: replacement. */
static const char *scatter_operation(const char *reduction) {
  static const char *const names[][2] = {{"add", "stablehlo.add"},
                                         {"mul", "stablehlo.multiply"},
                                         {"max", "stablehlo.maximum"},
                                         {"min", "stablehlo.minimum"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i][0], reduction) == 0) return names[i][1];
  return NULL;
}

/* Writes updates at positions: the last axis of the indices holds the first coordinates. */
static void write_scatter_nd(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_val_t indices = hlo_convert(w, hlo_in(w, 1), tenon_dtype(TENON_I64));
  int64_t places[TENON_RANK_MAX];
  int64_t windows[TENON_RANK_MAX];
  const char *operation = scatter_operation(hlo_write_choice(w, "reduction"));
  if (!hlo_write_stopped(w) && (!indices.ndim || indices.dims[indices.ndim - 1] > a.ndim))
    hlo_write_missing(w, "positions have more coordinates than there are axes");
  if (hlo_write_stopped(w)) return;
  const int32_t depth = (int32_t)indices.dims[indices.ndim - 1];
  const hlo_val_t parts[] = {indices, hlo_int_list(w, a.dims, depth)};
  indices = hlo_formula(w, "select(LT(a, 0), add(a, b), a)", parts, 2, &indices);
  for (int32_t i = 0; i < a.ndim; i++) {
    places[i] = i;
    windows[i] = i + indices.ndim - 1;
  }
  const hlo_val_t operands[] = {a, indices, hlo_in(w, 2)};
  const char *taken = hlo_list_text(w, places, depth);
  hlo_give_val(
      w, 0,
      hlo_emit(w, "stablehlo.scatter", a,
               hlo_format(w,
                          "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = %s, "
                          "inserted_window_dims = %s, scatter_dims_to_operand_dims = %s, "
                          "index_vector_dim = %d>, indices_are_sorted = false, "
                          "unique_indices = false",
                          hlo_list_text(w, windows, a.ndim - depth), taken, taken,
                          (int)indices.ndim - 1),
               hlo_region_of(w, operation, a.dtype), operands, 3));
}

/* values[1] where the index is the position along the new axis, else values[0]. */
static void write_one_hot(hlo_write_t *w) {
  hlo_val_t type = hlo_result(w, 0);
  hlo_val_t indices = hlo_convert(w, hlo_in(w, 0), tenon_dtype(TENON_I64));
  int32_t axis = hlo_axis(w, hlo_write_int(w, "axis"), type.ndim);
  int64_t axes[TENON_RANK_MAX];
  hlo_val_t parts[2];
  indices = hlo_from_start(w, indices, type.dims[axis]);
  for (int32_t i = 0; i < indices.ndim; i++)
    axes[i] = i < axis ? i : i + 1;
  hlo_val_t wide = type;
  wide.dtype = indices.dtype;
  hlo_val_t is_hot =
      hlo_compare_by(w, "EQ", hlo_broadcast_in(w, indices, axes, type.ndim, type.dims),
                     hlo_count_along(w, wide, axis));
  for (int32_t i = 0; i < 2; i++) {
    parts[i] = hlo_to_shape(w, hlo_cut_axis(w, hlo_in(w, 2), 0, i, i + 1), 0, NULL);
    parts[i] = hlo_broadcast_to(w, parts[i], &type);
  }
  hlo_give_val(w, 0, hlo_select(w, is_hot, parts[1], parts[0]));
}

/* Prints a stable sort of values with their indices. */
static void sort_with_indices(hlo_write_t *w, hlo_val_t values, hlo_val_t indices, int32_t axis,
                              bool is_descending, hlo_val_t *out_values, hlo_val_t *out_indices) {
  hlo_val_t number = hlo_type_of(values.dtype, 0, NULL);
  hlo_val_t index = hlo_type_of(indices.dtype, 0, NULL);
  if (hlo_write_stopped(w)) return;
  int32_t id = w->next++;
  fprintf(w->out, "    %%v%d:2 = \"stablehlo.sort\"(%s, %s) <{dimension = %d : i64, ", (int)id,
          hlo_val_text(w, &values), hlo_val_text(w, &indices), (int)axis);
  fprintf(w->out, "is_stable = true}> ({\n    ^bb0(%%a: ");
  hlo_print_type(w->out, &number);
  fprintf(w->out, ", %%b: ");
  hlo_print_type(w->out, &number);
  fprintf(w->out, ", %%c: ");
  hlo_print_type(w->out, &index);
  fprintf(w->out, ", %%d: ");
  hlo_print_type(w->out, &index);
  fprintf(w->out,
          "):\n      %%r = \"stablehlo.compare\"(%%a, %%b) <{comparison_direction = "
          "#stablehlo<comparison_direction %s>}> : (",
          is_descending ? "GT" : "LT");
  hlo_print_type(w->out, &number);
  fprintf(w->out, ", ");
  hlo_print_type(w->out, &number);
  fprintf(w->out,
          ") -> tensor<i1>\n      \"stablehlo.return\"(%%r) : (tensor<i1>) -> ()\n    }) : (");
  hlo_print_type(w->out, &values);
  fprintf(w->out, ", ");
  hlo_print_type(w->out, &indices);
  fprintf(w->out, ") -> (");
  hlo_print_type(w->out, &values);
  fprintf(w->out, ", ");
  hlo_print_type(w->out, &indices);
  fprintf(w->out, ")\n");
  *out_values = values;
  *out_indices = indices;
  out_values->id = id;
  out_values->part = 0;
  out_values->is_part = true;
  out_indices->id = id;
  out_indices->part = 1;
  out_indices->is_part = true;
}

static void write_top_k(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_val_t type = hlo_result(w, 0);
  int32_t axis = hlo_axis(w, hlo_write_int(w, "axis"), a.ndim);
  hlo_val_t count = a;
  count.dtype = tenon_dtype(TENON_I64);
  hlo_val_t values = a;
  hlo_val_t indices = hlo_count_along(w, count, axis);
  sort_with_indices(w, a, indices, axis, hlo_write_int(w, "largest") != 0, &values, &indices);
  if (hlo_write_stopped(w)) return;
  hlo_give_val(w, 0, hlo_cut_axis(w, values, axis, 0, type.dims[axis]));
  hlo_give_val(w, 1, hlo_cut_axis(w, indices, axis, 0, type.dims[axis]));
}

static const hlo_write_row_t rows[] = {
    {"gather", NULL, write_gather},       {"gather_elements", NULL, write_gather_elements},
    {"gather_nd", NULL, write_gather_nd}, {"scatter_nd", NULL, write_scatter_nd},
    {"one_hot", NULL, write_one_hot},     {"top_k", NULL, write_top_k},
};

HLO_WRITE_ROWS(hlo_write_rows_index);
