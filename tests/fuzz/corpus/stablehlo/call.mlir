module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x2xf32>) -> (tensor<3x1xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.custom_call @tenon_cpu(%arg0) {backend_config = "", mhlo.backend_config = {call = "core::softmax(1); axis=0"}, operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<3x2xf32>) -> tensor<3x2xf32>
    %c = stablehlo.constant dense<1> : tensor<i32>
    %1:2 = stablehlo.custom_call @tenon_cpu(%0, %c) {backend_config = "", mhlo.backend_config = {call = "core::top_k(1, 1)"}, operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<> : tensor<0xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>]} : (tensor<3x2xf32>, tensor<i32>) -> (tensor<3x1xf32>, tensor<3x1xi64>)
    return %1#0 : tensor<3x1xf32>
  }
}
