"""The operators of Tenon libraries as layers of Keras 3, on its backend TensorFlow.

    import keras, tenon, tenon.keras
    tenon.load("./gelu.so")
    model = keras.Sequential([keras.layers.Dense(8), tenon.keras.layer("demo::gelu")])

A model with such layers is trained, saved and loaded as any other.  The process that loads it has to load the same libraries first.
"""
import keras

from .. import _core
from .._calls import inputs_of, parameters_of, traits_of, written_inputs

__all__ = ["Operator", "layer"]


def _call():
    if keras.backend.backend() != "tensorflow":
        raise ImportError(f"tenon.keras needs the backend tensorflow of Keras, and it uses {keras.backend.backend()}: set KERAS_BACKEND=tensorflow before Keras is imported")
    from ..tensorflow.functions import call
    return call


def _generator(operator, seed):
    if not hasattr(keras, "random"):
        raise ImportError(f"{operator} draws random numbers, for which tenon.keras needs Keras 3; this is Keras {keras.__version__}: install TensorFlow 2.16 or newer")
    return keras.random.SeedGenerator(seed)


@keras.saving.register_keras_serializable(package="tenon")
class Operator(keras.layers.Layer):
    """A layer that calls an operator.  See `layer`."""

    def __init__(self, operator, attributes=None, weights=None, seed=None, **options):
        super().__init__(**options)
        self.operator, self.attributes, self.shapes, self.seed = operator, dict(attributes or {}), dict(weights or {}), seed
        _call()
        try:
            _core.find(operator)
        except _core.NotFoundError as error:
            raise ValueError(f"the layer {self.name} needs the operator {operator}: load its library with tenon.load first: {error}") from None
        tensors = [p["name"] for p in inputs_of(operator)]
        if written_inputs(operator):
            raise ValueError(f"{operator} writes to its inputs, so it is no layer")
        known = {"attribute": {p["name"] for p in parameters_of(operator) if not p["tensor"]}, "weight": set(tensors)}
        for kind, given in (("attribute", self.attributes), ("weight", self.shapes)):
            for name in given:
                if name not in known[kind]:
                    raise ValueError(f"{operator} has no {'tensor argument' if kind == 'weight' else 'attribute'} {name!r}; there are: {', '.join(sorted(known[kind])) or 'none'}")
        self.arguments = [name for name in tensors if name not in self.shapes]
        self.variables_of = {}
        self.generator = _generator(operator, seed) if "random" in traits_of(operator) else None

    def build(self, input_shape):
        first = input_shape[0] if isinstance(input_shape[0], (list, tuple)) else input_shape
        for name, (shape, initializer) in {k: _shape_and_initializer(v) for k, v in self.shapes.items()}.items():
            extents = tuple(first[-1] if extent is None else extent for extent in shape)
            self.variables_of[name] = self.add_weight(name=name, shape=extents, initializer=initializer)
        self.built = True

    def call(self, inputs, *more):
        given = [*(inputs if isinstance(inputs, (list, tuple)) and not self._takes_list() else [inputs]), *more]
        if len(given) > len(self.arguments):
            raise ValueError(f"{self.operator}: expected at most {len(self.arguments)} tensors ({', '.join(self.arguments)}), found {len(given)}")
        values = {**dict(zip(self.arguments, given)), **self.variables_of, **self.attributes}
        return _call()(self.operator, values, seed=None if self.generator is None else self.generator.next())

    def _takes_list(self):
        first = next((p for p in inputs_of(self.operator) if p["name"] in self.arguments), None)
        return first is not None and first["kind"] == "Tensor[]"

    def get_config(self):
        return {**super().get_config(), "operator": self.operator, "attributes": self.attributes, "weights": {k: list(v) for k, v in self.shapes.items()}, "seed": self.seed}


def _shape_and_initializer(spec):
    """Splits ((3, 4), "zeros"), or (3, 4); an initializer is needed where the default does not fit."""
    if len(spec) == 2 and isinstance(spec[0], (list, tuple)):
        return tuple(spec[0]), spec[1]
    return tuple(spec), "glorot_uniform" if len(spec) > 1 else "zeros"


def layer(operator, weights=None, seed=None, name=None, dtype=None, trainable=True, **attributes):
    """Returns a layer of Keras that calls an operator.

        tenon.keras.layer("demo::gelu")
        tenon.keras.layer("ten::layer", weights={"weight": (None, 4), "bias": (4,)})

    operator: "ns::name"; its library must be loaded.
    weights: the tensor arguments that are trainable variables of the layer, with their shapes; None is the last extent of the input.  A pair states the
        initializer as well: ((None, 4), "he_normal").  The default is "glorot_uniform" for matrices and "zeros" for vectors.
    seed: of a random operator.
    name, dtype, trainable: as for every layer of Keras; `dtype` may be a policy such as "mixed_float16".
    attributes: the attributes of the operator.

    The other tensor arguments are the inputs of the layer, in the order of the schema.
    Raises ValueError if the operator is not loaded, or has no such argument.
    """
    return Operator(operator, attributes, weights, seed, name=name, dtype=dtype, trainable=trainable)
