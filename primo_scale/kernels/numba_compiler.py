"""Compilation of kernels by Numba, in the only module that imports it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding
from numba import types
from numba.extending import intrinsic, register_jitable

from primo_scale.kernels.emitting import EMITTERS
from primo_scale.kernels.object_code import RESULTS, ObjectCode

_OF_NUMBA = ("NRT_", "numba_", "Py")


def compile_for(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    *,
    inlined: list[Callable[..., Any]],
    reorders: bool,
) -> ObjectCode:
    """Compile a function for the types of these arguments.

    It may call the functions in the list `inlined`, which is emptied as Numba learns them. It is an
    error if the function needs a part of Numba or Python while it runs, for example because it
    allocates an array, or if its result is of no kind that object code may return.
    """
    while inlined:
        register_jitable(boundscheck=False, _nrt=False)(inlined.pop())
    while EMITTERS:
        _register(*EMITTERS.pop())
    dispatcher = numba.njit(
        nogil=True,
        boundscheck=False,
        fastmath={"reassoc", "contract"} if reorders else False,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        _nrt=False,
    )(function)
    signature = tuple(numba.typeof(argument) for argument in arguments)
    dispatcher.compile(signature)
    made = dispatcher.overloads[signature]
    _, _, (code, bitcode) = made.library.serialize_using_object_code()
    module = binding.parse_bitcode(bitcode)
    needed = [each.name for each in module.functions if each.is_declaration]
    result = str(made.signature.return_type)
    if result not in RESULTS or any(name.startswith(_OF_NUMBA) for name in needed):
        raise TypeError(f"{function.__qualname__} returns {result} and needs {needed}")
    # Another process does not have Numba's vector mathematics, nor this one's large global arrays.
    portable = not made.library.has_dynamic_globals
    portable &= not any(name.startswith("__svml") for name in needed)
    return ObjectCode(made.fndesc.llvm_func_name, result, code, portable)


def _register(emit: Callable[..., Any], result: str) -> None:
    """Replace a function that emits instructions by one that Numba calls, with integer arguments.

    Numba looks up the names that a kernel uses in the kernel's module.
    """

    @functools.wraps(emit)
    def typed(_context: Any, *arguments: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            value = emit(builder, *values)
            return context.get_dummy_value() if value is None else value

        return getattr(types, result)(*[types.intp] * len(arguments)), generate

    setattr(sys.modules[emit.__module__], emit.__name__, intrinsic(typed))
