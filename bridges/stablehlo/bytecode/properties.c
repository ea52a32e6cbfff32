/* The attributes that operations keep as properties, in the order in which a file has them. Called
 * by operations.c. A version of an operation that is not in the table is refused, because its
 * attributes cannot be told apart. */
#include "bytecode/properties.h"

#include <string.h>

#include "bytecode/attributes.h"

typedef struct row_t {
  const char *op;
  const char *attrs; /* In the order of their names; a question mark follows the name of one that
                        may be absent. "-": no lowering asks for them. */
} row_t;

static const row_t rows[] = {
    {"builtin.module", "sym_name? sym_visibility?"},
    {"chlo.constant", "value"},
    {"chlo.constant_like", "value"},
    {"chlo.ragged_dot", "precision_config? ragged_dot_dimension_numbers"},
    {"chlo.top_k", "k"},
    {"func.call", "arg_attrs? callee no_inline? res_attrs?"},
    {"func.func", "arg_attrs? function_type no_inline? res_attrs? sym_name sym_visibility?"},
    {"stablehlo.all_gather", "-"},
    {"stablehlo.all_reduce", "-"},
    {"stablehlo.all_to_all", "-"},
    {"stablehlo.async_start", "-"},
    {"stablehlo.batch_norm_grad", "epsilon feature_index"},
    {"stablehlo.batch_norm_inference", "epsilon feature_index"},
    {"stablehlo.batch_norm_training", "epsilon feature_index"},
    {"stablehlo.broadcast", "-"},
    {"stablehlo.broadcast_in_dim", "broadcast_dimensions"},
    {"stablehlo.cbrt", "result_accuracy?"},
    {"stablehlo.cholesky", "lower?"},
    {"stablehlo.collective_broadcast", "-"},
    {"stablehlo.collective_permute", "-"},
    {"stablehlo.collective_reduce", "-"},
    {"stablehlo.compare", "compare_type? comparison_direction"},
    {"stablehlo.composite", "composite_attributes? decomposition name version?"},
    {"stablehlo.concatenate", "dimension"},
    {"stablehlo.constant", "value"},
    {"stablehlo.convolution",
     "batch_group_count dimension_numbers feature_group_count lhs_dilation? padding? "
     "precision_config? rhs_dilation? window_reversal? window_strides?"},
    {"stablehlo.cosine", "result_accuracy?"},
    {"stablehlo.cross-replica-sum", "-"},
    {"stablehlo.custom_call",
     "api_version? backend_config? call_target_name called_computations? "
     "has_side_effect? operand_layouts? output_operand_aliases? result_layouts? "
     "result_tilings?"},
    {"stablehlo.dot", "precision_config?"},
    {"stablehlo.dot_general", "algorithm? dot_dimension_numbers precision_config?"},
    {"stablehlo.dynamic_broadcast_in_dim",
     "broadcast_dimensions known_expanding_dimensions? known_nonexpanding_dimensions?"},
    {"stablehlo.dynamic_conv",
     "batch_group_count dimension_numbers feature_group_count lhs_dilation? precision_config? "
     "rhs_dilation? window_reversal? window_strides?"},
    {"stablehlo.dynamic_gather", "dimension_numbers indices_are_sorted?"},
    {"stablehlo.dynamic_iota", "iota_dimension"},
    {"stablehlo.dynamic_slice", "slice_sizes"},
    {"stablehlo.einsum", "-"},
    {"stablehlo.exponential", "result_accuracy?"},
    {"stablehlo.exponential_minus_one", "result_accuracy?"},
    {"stablehlo.fft", "fft_length fft_type"},
    {"stablehlo.gather", "dimension_numbers indices_are_sorted? slice_sizes"},
    {"stablehlo.get_dimension_size", "dimension"},
    {"stablehlo.get_tuple_element", "index"},
    {"stablehlo.infeed", "-"},
    {"stablehlo.iota", "iota_dimension"},
    {"stablehlo.log", "result_accuracy?"},
    {"stablehlo.log_plus_one", "result_accuracy?"},
    {"stablehlo.logistic", "result_accuracy?"},
    {"stablehlo.map", "dimensions"},
    {"stablehlo.outfeed", "-"},
    {"stablehlo.pad", "edge_padding_high edge_padding_low interior_padding"},
    {"stablehlo.recv", "-"},
    {"stablehlo.reduce", "dimensions"},
    {"stablehlo.reduce_precision", "exponent_bits mantissa_bits"},
    {"stablehlo.reduce_scatter", "-"},
    {"stablehlo.reduce_window",
     "base_dilations? padding? window_dilations? window_dimensions window_strides?"},
    {"stablehlo.reverse", "dimensions"},
    {"stablehlo.rng", "rng_distribution"},
    {"stablehlo.rng_bit_generator", "rng_algorithm"},
    {"stablehlo.rsqrt", "result_accuracy?"},
    {"stablehlo.scatter", "indices_are_sorted? scatter_dimension_numbers unique_indices?"},
    {"stablehlo.select_and_scatter", "padding? window_dimensions? window_strides?"},
    {"stablehlo.send", "-"},
    {"stablehlo.set_dimension_size", "-"},
    {"stablehlo.sine", "result_accuracy?"},
    {"stablehlo.slice", "limit_indices start_indices strides"},
    {"stablehlo.sort", "dimension? is_stable?"},
    {"stablehlo.sqrt", "result_accuracy?"},
    {"stablehlo.tan", "result_accuracy?"},
    {"stablehlo.tanh", "result_accuracy?"},
    {"stablehlo.torch_index_select", "-"},
    {"stablehlo.transpose", "permutation"},
    {"stablehlo.triangular_solve", "left_side lower transpose_a unit_diagonal"},
    {"stablehlo.unary_einsum", "-"},
    {"vhlo.all_gather_v1", "all_gather_dim channel_id replica_groups use_global_device_ids"},
    {"vhlo.all_gather_v2", "all_gather_dim channel_id replica_groups use_global_device_ids"},
    {"vhlo.all_reduce_v1", "channel_id replica_groups use_global_device_ids"},
    {"vhlo.all_reduce_v2", "channel_id replica_groups use_global_device_ids"},
    {"vhlo.all_to_all_v1",
     "channel_id concat_dimension replica_groups split_count split_dimension"},
    {"vhlo.all_to_all_v2",
     "channel_id concat_dimension replica_groups split_count split_dimension"},
    {"vhlo.batch_norm_grad_v1", "epsilon feature_index"},
    {"vhlo.batch_norm_inference_v1", "epsilon feature_index"},
    {"vhlo.batch_norm_training_v1", "epsilon feature_index"},
    {"vhlo.broadcast_in_dim_v1", "broadcast_dimensions"},
    {"vhlo.broadcast_v1", "broadcast_sizes"},
    {"vhlo.call_v1", "callee"},
    {"vhlo.cbrt_v2", "result_accuracy"},
    {"vhlo.cholesky_v1", "lower"},
    {"vhlo.collective_broadcast_v1", "channel_id replica_groups"},
    {"vhlo.collective_broadcast_v2", "channel_id has_dynamic_root replica_groups"},
    {"vhlo.collective_reduce_v1",
     "channel_id has_dynamic_root replica_groups use_global_device_ids"},
    {"vhlo.collective_permute_v1", "channel_id source_target_pairs"},
    {"vhlo.compare_v1", "compare_type comparison_direction"},
    {"vhlo.composite_v1", "composite_attributes decomposition name version"},
    {"vhlo.composite_v2", "composite_attributes decomposition name version"},
    {"vhlo.concatenate_v1", "dimension"},
    {"vhlo.constant_v1", "value"},
    {"vhlo.convolution_v1",
     "batch_group_count feature_group_count input_batch_dimension "
     "input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension "
     "kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation "
     "output_batch_dimension output_feature_dimension output_spatial_dimensions "
     "padding precision_config rhs_dilation window_reversal window_strides"},
    {"vhlo.cosine_v2", "result_accuracy"},
    {"vhlo.cross-replica-sum_v1", "replica_groups"},
    {"vhlo.custom_call_v1",
     "api_version backend_config call_target_name called_computations has_side_effect "
     "operand_layouts output_operand_aliases result_layouts"},
    {"vhlo.custom_call_v2",
     "api_version backend_config call_target_name called_computations has_side_effect "
     "operand_layouts output_operand_aliases result_layouts result_tilings"},
    {"vhlo.dot_general_v1", "lhs_batching_dimensions lhs_contracting_dimensions precision_config "
                            "rhs_batching_dimensions rhs_contracting_dimensions"},
    {"vhlo.dot_general_v2",
     "accumulation_type allow_imprecise_accumulation lhs_batching_dimensions "
     "lhs_component_count lhs_contracting_dimensions lhs_precision_type "
     "num_primitive_operations precision_config rhs_batching_dimensions "
     "rhs_component_count rhs_contracting_dimensions rhs_precision_type"},
    {"vhlo.dot_v1", "precision_config"},
    {"vhlo.dynamic_broadcast_in_dim_v1",
     "broadcast_dimensions known_expanding_dimensions known_nonexpanding_dimensions"},
    {"vhlo.dynamic_conv_v1",
     "batch_group_count feature_group_count input_batch_dimension "
     "input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension "
     "kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation "
     "output_batch_dimension output_feature_dimension output_spatial_dimensions "
     "padding precision_config rhs_dilation window_reversal window_strides"},
    {"vhlo.dynamic_conv_v2",
     "batch_group_count feature_group_count input_batch_dimension "
     "input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension "
     "kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation "
     "output_batch_dimension output_feature_dimension output_spatial_dimensions "
     "precision_config rhs_dilation window_reversal window_strides"},
    {"vhlo.dynamic_gather_v1",
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims "
     "start_index_map"},
    {"vhlo.dynamic_gather_v2",
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims "
     "operand_batching_dims start_index_map start_indices_batching_dims"},
    {"vhlo.dynamic_iota_v1", "iota_dimension"},
    {"vhlo.dynamic_slice_v1", "slice_sizes"},
    {"vhlo.einsum_v1", "einsum_config"},
    {"vhlo.exponential_minus_one_v2", "result_accuracy"},
    {"vhlo.exponential_v2", "result_accuracy"},
    {"vhlo.fft_v1", "fft_length fft_type"},
    {"vhlo.func_v1", "arg_attrs function_type res_attrs sym_name sym_visibility"},
    {"vhlo.gather_v1",
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims slice_sizes "
     "start_index_map"},
    {"vhlo.gather_v2",
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims "
     "operand_batching_dims slice_sizes start_index_map start_indices_batching_dims"},
    {"vhlo.get_dimension_size_v1", "dimension"},
    {"vhlo.get_tuple_element_v1", "index"},
    {"vhlo.infeed_v1", "infeed_config layout"},
    {"vhlo.iota_v1", "iota_dimension"},
    {"vhlo.log_plus_one_v2", "result_accuracy"},
    {"vhlo.logistic_v2", "result_accuracy"},
    {"vhlo.log_v2", "result_accuracy"},
    {"vhlo.map_v1", "dimensions"},
    {"vhlo.outfeed_v1", "outfeed_config"},
    {"vhlo.pad_v1", "edge_padding_high edge_padding_low interior_padding"},
    {"vhlo.recv_v1", "channel_id channel_type is_host_transfer"},
    {"vhlo.recv_v2", "channel_id channel_type is_host_transfer source_target_pairs"},
    {"vhlo.reduce_v1", "dimensions"},
    {"vhlo.reduce_precision_v1", "exponent_bits mantissa_bits"},
    {"vhlo.reduce_scatter_v1", "channel_id replica_groups scatter_dimension use_global_device_ids"},
    {"vhlo.reduce_window_v1",
     "base_dilations padding window_dilations window_dimensions window_strides"},
    {"vhlo.reverse_v1", "dimensions"},
    {"vhlo.rng_bit_generator_v1", "rng_algorithm"},
    {"vhlo.rng_v1", "rng_distribution"},
    {"vhlo.rsqrt_v2", "result_accuracy"},
    {"vhlo.scatter_v1", "index_vector_dim indices_are_sorted inserted_window_dims "
                        "scatter_dims_to_operand_dims unique_indices update_window_dims"},
    {"vhlo.scatter_v2",
     "index_vector_dim indices_are_sorted input_batching_dims inserted_window_dims "
     "scatter_dims_to_operand_dims scatter_indices_batching_dims unique_indices "
     "update_window_dims"},
    {"vhlo.select_and_scatter_v1", "padding window_dimensions window_strides"},
    {"vhlo.send_v1", "channel_id channel_type is_host_transfer"},
    {"vhlo.send_v2", "channel_id channel_type is_host_transfer source_target_pairs"},
    {"vhlo.set_dimension_size_v1", "dimension"},
    {"vhlo.sine_v2", "result_accuracy"},
    {"vhlo.slice_v1", "limit_indices start_indices strides"},
    {"vhlo.sort_v1", "dimension is_stable"},
    {"vhlo.sqrt_v2", "result_accuracy"},
    {"vhlo.tan_v2", "result_accuracy"},
    {"vhlo.tanh_v2", "result_accuracy"},
    {"vhlo.torch_index_select_v1", "batch_dims dim"},
    {"vhlo.transpose_v1", "permutation"},
    {"vhlo.triangular_solve_v1", "left_side lower transpose_a unit_diagonal"},
    {"vhlo.unary_einsum_v1", "einsum_config"},
};

static const char *attrs_of_op(const char *op) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].op, op) == 0) return rows[i].attrs;
  return NULL;
}

/* Reads the attribute whose name begins at `word`. Returns whether it is present. */
static bool read_property(bc_part_t *part, const char *word, size_t size, const char **out_name,
                          hlo_attr_t *out) {
  bool is_optional = word[size - 1] == '?';
  bool is_present = true;
  if (is_optional && !bc_left(part)) return false; /* Earlier versions have fewer. */
  uint64_t index = is_optional ? bc_flagged(part, &is_present) : bc_number(part);
  if (!is_present || bc_failed(part)) return false;
  *out = *bc_attr_at(part, index);
  size -= is_optional;
  char *name = bc_take(part, size + 1, 1);
  if (name) memcpy(name, word, size);
  *out_name = name;
  return name != NULL;
}

static void read_named(bc_part_t *part, const bc_op_name_t *op, hlo_attr_t *out) {
  const char *word = attrs_of_op(op->text);
  int32_t count = 0;
  if (!word) {
    bc_fail(part,
            "the attributes of %.80s are not known: write the program with a lower target version",
            op->text);
    return;
  }
  if (*word == '-') return;
  size_t most = strlen(word) / 2 + 1;
  const char **names = bc_take(part, most, sizeof *names);
  hlo_attr_t *items = bc_take(part, most, sizeof *items);
  while (*word && !bc_failed(part)) {
    size_t size = strcspn(word, " ");
    count += read_property(part, word, size, &names[count], &items[count]);
    word += size + (word[size] == ' ');
  }
  if (bc_left(part))
    bc_fail(part,
            "%.80s has attributes that are not known: write the program with a lower target "
            "version",
            op->text);
  *out = (hlo_attr_t){.kind = HLO_ATTR_DICT, .names = names, .items = items, .count = count};
}

void bc_read_properties(bc_part_t *part, const bc_op_name_t *op, uint64_t index, hlo_attr_t *out) {
  bc_file_t *file = part->file;
  size_t at = bc_check_index(part, index, file->property_count, "properties");
  if (bc_failed(part)) return;
  bc_part_t inner = file->properties[at];
  if (strncmp(op->text, "sdy.", 4) == 0 || strncmp(op->text, "mpmd.", 5) == 0) return;
  if (!op->has_plain_attrs) {
    read_named(&inner, op, out);
    return;
  }
  const hlo_attr_t *dict = bc_attr(&inner);
  if (dict->kind == HLO_ATTR_DICT) *out = *dict;
}
