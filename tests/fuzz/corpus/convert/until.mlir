func.func @main(%x: tensor<2x3xf32>, %flag: tensor<i1>, %index: tensor<i32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<2x3xf32>
  cond {
    %c = stablehlo.compare LT, %i, %index : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %two = stablehlo.constant dense<2> : tensor<i32>
    %b = "stablehlo.if"(%flag) ({
      %d = stablehlo.multiply %a, %x : tensor<2x3xf32>
      stablehlo.return %d : tensor<2x3xf32>
    }, {
      %e = stablehlo.slice %a [0:2, 0:3] : (tensor<2x3xf32>) -> tensor<2x3xf32>
      %f = stablehlo.reverse %e, dims = [1] : tensor<2x3xf32>
      stablehlo.return %f : tensor<2x3xf32>
    }) : (tensor<i1>) -> tensor<2x3xf32>
    %j = stablehlo.add %i, %two : tensor<i32>
    stablehlo.return %j, %b : tensor<i32>, tensor<2x3xf32>
  }
  %y = "stablehlo.case"(%index) ({
    %p = stablehlo.negate %x : tensor<2x3xf32>
    stablehlo.return %p : tensor<2x3xf32>
  }, {
    %q = stablehlo.add %x, %r#1 : tensor<2x3xf32>
    stablehlo.return %q : tensor<2x3xf32>
  }, {
    stablehlo.return %x : tensor<2x3xf32>
  }) : (tensor<i32>) -> tensor<2x3xf32>
  return %r#1, %y, %r#0 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<i32>
}
