func.func @main(%x: tensor<4x3xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<3xf32>, tensor<4x3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %s = stablehlo.constant dense<0.5> : tensor<3xf32>
  %rows = stablehlo.constant dense<0.0> : tensor<4xf32>
  %r:4 = stablehlo.while(%i = %zero, %a = %s, %out = %rows, %all = %x) : tensor<i32>, tensor<3xf32>, tensor<4xf32>, tensor<4x3xf32>
  cond {
    %most = stablehlo.constant dense<4> : tensor<i32>
    %c = stablehlo.compare LT, %i, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %first = stablehlo.constant dense<0> : tensor<i32>
    %nothing = stablehlo.constant dense<0.0> : tensor<f32>
    %slice = stablehlo.dynamic_slice %all, %i, %first, sizes = [1, 3] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %row = stablehlo.reshape %slice : (tensor<1x3xf32>) -> tensor<3xf32>
    %b = stablehlo.add %a, %row : tensor<3xf32>
    %t = stablehlo.tanh %b : tensor<3xf32>
    %sum = stablehlo.reduce(%t init: %nothing) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    %part = stablehlo.reshape %sum : (tensor<f32>) -> tensor<1xf32>
    %put = stablehlo.dynamic_update_slice %out, %part, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t, %put, %all : tensor<i32>, tensor<3xf32>, tensor<4xf32>, tensor<4x3xf32>
  }
  return %r#2, %r#1, %r#3 : tensor<4xf32>, tensor<3xf32>, tensor<4x3xf32>
}
