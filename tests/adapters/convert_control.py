"""Control flow for the tests of conversions: bodies of ONNX's If, Loop and Scan (convert_oracle.py makes models of them), and functions of JAX
(convert_test.py converts them)."""
import numpy as np

F32, I64, BOOL = 1, 7, 9


def graph(name, nodes, inputs, outputs, constants=()):
    from onnx import helper, numpy_helper
    def ports(items):
        return [helper.make_tensor_value_info(*item) for item in items]
    return helper.make_graph(nodes, name, ports(inputs), ports(outputs), [numpy_helper.from_array(x, n) for n, x in constants])


def models():
    """Returns {name: (nodes, inputs, outputs, constants, values)}: nodes of the main graph, and its ports."""
    from onnx import helper
    node = helper.make_node
    def port(name, *shape, dtype=F32):
        return name, dtype, list(shape)
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    one, two, three = (np.array(n, np.int64) for n in (1, 2, 3))

    def branch(nodes, *outputs, constants=()):
        return graph("branch", nodes, [], outputs, constants)

    yes = branch([node("Mul", ["x", "two"], ["yes"])], port("yes", 2, 3), constants=[("two", np.float32(2))])
    no = branch([node("Neg", ["x"], ["n0"]), node("Add", ["n0", "shared"], ["no"])], port("no", 2, 3))
    outer = branch([node("If", ["d"], ["inner"], then_branch=yes, else_branch=no)], port("inner", 2, 3))
    same = branch([node("Identity", ["x"], ["same"])], port("same", 2, 3))
    power = graph("power", [node("Mul", ["v", "shared"], ["v_out"]), node("Identity", ["go"], ["go_out"]), node("Cast", ["i"], ["f"], to=F32),
                            node("Add", ["v", "f"], ["row"])],
                  [port("i", dtype=I64), port("go", dtype=BOOL), port("v", 2, 3)], [port("go_out", dtype=BOOL), port("v_out", 2, 3), port("row", 2, 3)])
    until = graph("until", [node("Add", ["v", "v"], ["v_out"]), node("ReduceSum", ["v_out"], ["sum"], keepdims=0),
                            node("Less", ["sum", "bound"], ["go_out"])],
                  [port("i", dtype=I64), port("go", dtype=BOOL), port("v", 2, 3)], [port("go_out", dtype=BOOL), port("v_out", 2, 3)])
    slices = graph("slices", [node("Slice", ["x", "begin", "end", "begin"], ["part"]), node("Add", ["v", "part"], ["v_out"]),
                              node("Identity", ["go"], ["go_out"])],
                   [port("i", dtype=I64), port("go", dtype=BOOL), port("v", 2, 1)], [port("go_out", dtype=BOOL), port("v_out", 2, 1)])
    counter = graph("counter", [node("Add", ["n", "one"], ["n_out"]), node("Less", ["n_out", "five"], ["go_out"]), node("Cast", ["n"], ["row"], to=F32)],
                    [port("i", dtype=I64), port("go", dtype=BOOL), port("n", dtype=I64)],
                    [port("go_out", dtype=BOOL), port("n_out", dtype=I64), port("row")])
    sums = graph("sums", [node("Add", ["s", "r"], ["s_out"]), node("Mul", ["s_out", "shared"], ["row"])],
                 [port("s", 3), port("r", 3)], [port("s_out", 3), port("row", 3)])
    columns = graph("columns", [node("Add", ["s", "c"], ["s_out"]), node("Sub", ["c", "e"], ["row"])],
                    [port("s", 2), port("c", 2), port("e", 2)], [port("s_out", 2), port("row", 2)])
    nested = graph("nested", [node("Loop", ["i", "", "v"], ["w"], body=graph(
        "inner", [node("Add", ["u", "x"], ["u_out"]), node("Identity", ["g"], ["g_out"])],
        [port("j", dtype=I64), port("g", dtype=BOOL), port("u", 2, 3)], [port("g_out", dtype=BOOL), port("u_out", 2, 3)])),
        node("Identity", ["w"], ["v_out"]), node("Identity", ["go"], ["go_out"])],
        [port("i", dtype=I64), port("go", dtype=BOOL), port("v", 2, 3)], [port("go_out", dtype=BOOL), port("v_out", 2, 3)])
    shared = ("shared", np.float32([0.5, 2, -1]))
    out = port("y", 2, 3)
    found = {}
    for flag in True, False:
        found[f"If {flag}"] = ([node("If", ["c"], ["y"], then_branch=yes, else_branch=no)], [out], [shared], {"c": np.array(flag), "x": x})
        found[f"If in If {flag}"] = ([node("If", ["c"], ["y"], then_branch=outer, else_branch=same)], [out], [shared],
                                     {"c": np.array(True), "d": np.array([flag]), "x": x})
        found[f"Loop with a condition {flag}"] = ([node("Loop", ["three", "c", "x"], ["y"], body=slim(power))], [out], [shared, ("three", three)],
                                                  {"c": np.array(flag), "x": x})
    found["Loop"] = ([node("Loop", ["three", "", "x"], ["y", "rows"], body=power)], [out, port("rows", 3, 2, 3)], [shared, ("three", three)], {"x": x})
    found["Loop of no iterations"] = ([node("Loop", ["none", "", "x"], ["y", "rows"], body=power)], [out, port("rows", 0, 2, 3)],
                                      [shared, ("none", 0 * one)], {"x": x})
    found["Loop of unknown trips"] = ([node("Loop", ["n", "", "x"], ["y"], body=slim(power))], [out], [shared], {"n": three, "x": x})
    found["Loop until"] = ([node("Loop", ["most", "go", "x"], ["y"], body=until)], [out], [("bound", np.float32(100)), ("go", np.array(True)),
                                                                                          ("most", np.array(2 ** 63 - 1))], {"x": x + 3})
    found["Loop with constants from outside"] = ([node("Loop", ["n", "", "z"], ["y"], body=slices)], [port("y", 2, 1)],
                                                 [("begin", np.array([1])), ("end", np.array([2]))], {"n": two, "z": x[:, :1], "x": x})
    found["Loop that counts"] = ([node("Loop", ["", "go", "n"], ["y", "rows"], body=counter)], [port("y", dtype=I64), port("rows", 4), ],
                                 [("n", one), ("one", one), ("five", np.array(5)), ("go", np.array(True))], {"x": x})
    found["Loop in Loop"] = ([node("Loop", ["three", "", "x"], ["y"], body=nested)], [out], [("three", three)], {"x": x})
    found["Scan"] = ([node("Scan", ["z", "x"], ["y", "rows"], body=sums, num_scan_inputs=1)], [port("y", 3), port("rows", 2, 3)], [shared],
                     {"z": np.float32([1, 2, 3]), "x": x})
    found["Scan of columns"] = ([node("Scan", ["z", "x", "w"], ["y", "rows"], body=columns, num_scan_inputs=2, scan_input_axes=[1, 0],
                                      scan_input_directions=[0, 1], scan_output_axes=[-1], scan_output_directions=[1])],
                                [port("y", 2), port("rows", 2, 3)], [], {"z": np.float32([1, 2]), "x": x, "w": x.T.copy() * 3})
    return found


def slim(body):
    """The body of a loop without what it stacks."""
    import onnx
    copy = onnx.GraphProto()
    copy.CopyFrom(body)
    del copy.output[2:]
    return copy


def programs(jax):
    """Returns {name: (function, arguments)}."""
    jnp, lax = jax.numpy, jax.lax
    x = np.arange(12, dtype=np.float32).reshape(4, 3) / 4 - 1
    w = np.eye(3, dtype=np.float32) + np.float32(0.1)

    def recurrent(w, x):
        def step(state, row):
            state = jnp.tanh(state @ w + row)
            return state, state.sum()
        return lax.scan(step, jnp.zeros(3, np.float32), x)

    def both_ways(x):
        return lax.scan(lambda s, r: (s + r, s * r), jnp.ones(3, np.float32), x, reverse=True)

    def norm(x):
        return lax.while_loop(lambda s: (s[1] ** 2).sum() > 0.5, lambda s: (s[0] + 1, s[1] * np.float32(0.7)), (jnp.int32(0), x))

    def chosen(flag, x):
        return lax.cond(flag > 0, lambda: x * 2, lambda: x - 1)

    def switched(index, x):
        return lax.switch(index, [lambda a: a + 1, lambda a: a * 3, jnp.sin], x)

    def newton(x):
        return lax.fori_loop(0, 8, lambda i, y: (y + x / y) / 2, jnp.ones_like(x))

    def nested(x):
        return lax.fori_loop(0, 3, lambda i, a: lax.cond(i % 2 == 0, lambda b: b + i, lambda b: lax.fori_loop(0, i + 1, lambda j, c: c * 2, b), a), x)

    def mixed(x):
        def step(states, row):
            count, seen, product = states
            return (count + 1, seen | (row.sum() > 0), product * row), (count, seen, row.argmax())
        return lax.scan(step, (jnp.int32(0), jnp.bool_(False), jnp.ones(3, np.float32)), x)

    def batched(x):
        return jax.vmap(lambda row: lax.while_loop(lambda s: s[0] < s[1].sum() + 3, lambda s: (s[0] + 1, s[1] * np.float32(0.9)), (jnp.float32(0), row)))(x)

    def inner_scan(x):
        return lax.scan(lambda c, r: lax.scan(lambda d, e: (d + e * c.sum(), d), c, r), jnp.float32(1), x)

    def downwards(x):
        return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 2, s[1] + s[0]), (jnp.int32(7), x))

    return {"scan of several types": (mixed, (x,)), "batched while_loop": (batched, (x,)), "scan in scan": (inner_scan, (x,)),
            "while_loop downwards": (downwards, (x,)), "scan of nothing": (lambda x: lax.scan(lambda c, r: (c + 1, r), jnp.float32(0), x[:0]), (x,)),
            "scan": (recurrent, (w, x)), "reverse scan": (both_ways, (x,)), "while_loop": (norm, (x,)),
            "cond true": (chosen, (np.int32(1), x)), "cond false": (chosen, (np.int32(-1), x)),
            **{f"switch {i}": (switched, (np.int32(i), x)) for i in range(3)}, "fori_loop": (newton, (np.abs(x) + 1,)), "nested": (nested, (x,)),
            "gradient of scan": (lambda w, x: jax.grad(lambda w: recurrent(w, x)[1].sum())(w), (w, x))}
