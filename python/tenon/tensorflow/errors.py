"""Tenon's errors as TensorFlow's."""
import tensorflow as tf

from .. import _core

_CLASSES = [(_core.NotFoundError, tf.errors.NotFoundError), (_core.UnimplementedError, tf.errors.UnimplementedError), (_core.InvalidError, tf.errors.InvalidArgumentError),
            (_core.ExistsError, tf.errors.AlreadyExistsError), (_core.DeniedError, tf.errors.PermissionDeniedError), (_core.OutOfMemoryError, tf.errors.ResourceExhaustedError)]


def invalid(message):
    """Returns the error for a wrong argument."""
    return tf.errors.InvalidArgumentError(None, None, message)


def not_found(message):
    return tf.errors.NotFoundError(None, None, message)


def unimplemented(message):
    return tf.errors.UnimplementedError(None, None, message)


def translated(error, what=""):
    """Returns TensorFlow's error for one of Tenon's; what: stands before its message."""
    for own, theirs in _CLASSES:
        if isinstance(error, own):
            return theirs(None, None, what + str(error))
    return tf.errors.InternalError(None, None, what + str(error))
