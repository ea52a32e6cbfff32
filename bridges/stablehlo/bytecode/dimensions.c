/* Structures of the dialect stablehlo that state which dimensions of operands an operation uses.
 * Called by attributes.c and upgrade.c. They become what the parser makes of a text. */
#include "bytecode/dimensions.h"

enum {
  CONVOLUTION = 4,
  FIELDS_MOST = 6,
};

typedef struct structure_t {
  uint64_t code;
  const char *fields[FIELDS_MOST]; /* The last one of six is one number, the others are lists. */
} structure_t;

static const structure_t structures[] = {
    {5,
     {"lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
      "rhs_contracting_dimensions"}},
    {7,
     {"offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
      "start_index_map", "index_vector_dim"}},
    {11,
     {"update_window_dims", "inserted_window_dims", "input_batching_dims",
      "scatter_indices_batching_dims", "scatter_dims_to_operand_dims", "index_vector_dim"}},
};

static void read_one_number(bc_part_t *part, hlo_attr_t *out) {
  int64_t number = bc_signed(part);
  *out = (hlo_attr_t){.kind = HLO_ATTR_INT, .integer = number, .number = (double)number};
}

static void read_number_list(bc_part_t *part, hlo_attr_t *out) {
  size_t count = bc_count(part, "numbers");
  hlo_attr_t *items = bc_take(part, count, sizeof *items);
  for (size_t i = 0; i < count && !bc_failed(part); i++)
    read_one_number(part, &items[i]);
  *out = (hlo_attr_t){.kind = HLO_ATTR_LIST, .items = items};
  out->count = bc_failed(part) ? 0 : (int32_t)count;
}

static void read_structure(bc_part_t *part, const structure_t *structure, hlo_attr_t *out) {
  hlo_attr_t *items = bc_take(part, FIELDS_MOST, sizeof *items);
  int32_t count = 0;
  while (count < FIELDS_MOST && structure->fields[count] && !bc_failed(part)) {
    if (count == FIELDS_MOST - 1)
      read_one_number(part, &items[count]);
    else
      read_number_list(part, &items[count]);
    count++;
  }
  *out = (hlo_attr_t){
      .kind = HLO_ATTR_DICT, .items = items, .names = structure->fields, .count = count};
}

/* convolutions */

void bc_put_axis(bc_part_t *part, hlo_attr_t *list, int64_t place, const char *letter,
                 int64_t number) {
  hlo_attr_t *items = (hlo_attr_t *)list->items;
  if (bc_failed(part)) return;
  if (place < 0 || place >= list->count || items[place].text) {
    bc_fail(part, "the axes of a convolution are not a permutation: the file is damaged");
    return;
  }
  items[place].kind = letter ? HLO_ATTR_WORD : HLO_ATTR_INT;
  items[place].text = letter ? letter : "";
  items[place].integer = number;
}

/* Reads the places of two named axes and of the spatial ones. */
static void read_axes(bc_part_t *part, const char *first, const char *second, hlo_attr_t *out) {
  hlo_attr_t spatial = {0};
  int64_t first_place = bc_signed(part);
  int64_t second_place = bc_signed(part);
  read_number_list(part, &spatial);
  if (spatial.count > TENON_RANK_MAX - 2)
    bc_fail(part, "a convolution has more than %d axes", TENON_RANK_MAX);
  hlo_attr_t *items = bc_take(part, (size_t)spatial.count + 2, sizeof *items);
  *out = (hlo_attr_t){.kind = HLO_ATTR_LIST, .items = items, .count = spatial.count + 2};
  bc_put_axis(part, out, first_place, first, 0);
  bc_put_axis(part, out, second_place, second, 0);
  for (int32_t i = 0; i < spatial.count; i++)
    bc_put_axis(part, out, spatial.items[i].integer, NULL, i);
}

static void read_convolution_axes(bc_part_t *part, hlo_attr_t *out) {
  hlo_attr_t *lists = bc_take(part, 3, sizeof *lists);
  if (!lists) return;
  read_axes(part, "b", "f", &lists[0]);
  read_axes(part, "i", "o", &lists[1]);
  read_axes(part, "b", "f", &lists[2]);
  *out = (hlo_attr_t){.kind = HLO_ATTR_LIST, .items = lists, .count = 3};
}

void bc_read_dimensions(bc_part_t *part, uint64_t code, hlo_attr_t *out) {
  if (code == CONVOLUTION) read_convolution_axes(part, out);
  for (size_t i = 0; i < sizeof structures / sizeof *structures; i++)
    if (structures[i].code == code) read_structure(part, &structures[i], out);
}
