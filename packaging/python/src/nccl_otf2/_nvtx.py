"""Ranges of the program, through NVTX's interface for injected libraries.

NVTX is a header: each binary that has it loads the library that ``NVTX_INJECTION64_PATH`` names, and gives it tables of
places for its functions. This module is such a binary, in Python. ``nvtxTypes.h`` and ``nvToolsExt.h`` have the types.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import operator
import os
import re
import threading
import warnings
from typing import Any, Callable, SupportsFloat, SupportsIndex, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

_TABLE_OF_CALLBACKS = 1
_MODULE_CORE2 = 5
_DOMAIN_PUSH_EX, _DOMAIN_POP, _DOMAIN_CREATE_A = 4, 5, 12
_CORE2_FUNCTIONS = 16
_ARGB, _UTF8, _INT64, _DOUBLE = 1, 1, 2, 3


class _Payload(ctypes.Union):
    _fields_ = [("integer", ctypes.c_int64), ("double", ctypes.c_double)]


class _Attributes(ctypes.Structure):
    """``nvtxEventAttributes_t``."""

    _fields_ = [
        ("version", ctypes.c_uint16),
        ("size", ctypes.c_uint16),
        ("category", ctypes.c_uint32),
        ("color_type", ctypes.c_int32),
        ("color", ctypes.c_uint32),
        ("payload_type", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("payload", _Payload),
        ("message_type", ctypes.c_int32),
        ("message", ctypes.c_char_p),
    ]


# With the GIL held: a call is shorter than giving the GIL away.
_PushEx = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Attributes))
_Pop = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_CreateA = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
_Places = ctypes.POINTER(ctypes.c_void_p)
_ModuleFunctions = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(_Places)), ctypes.POINTER(ctypes.c_uint)
)
_GetTable = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)


class _Callbacks(ctypes.Structure):
    """``NvtxExportTableCallbacks``."""

    _fields_ = [("size", ctypes.c_size_t), ("module_functions", _ModuleFunctions)]


class _Injection:
    """The functions of the library that the environment names. The library keeps the addresses of what is in here."""

    def __init__(self, path: str) -> None:
        self._functions = (ctypes.c_void_p * _CORE2_FUNCTIONS)()
        at = ctypes.addressof(self._functions)
        width = ctypes.sizeof(ctypes.c_void_p)
        # NVTX's tables have the addresses of its pointers to functions, and nothing at 0.
        places = [ctypes.cast(at + i * width, _Places) if i else _Places() for i in range(_CORE2_FUNCTIONS)]
        self._table = (_Places * _CORE2_FUNCTIONS)(*places)
        self._callbacks = _Callbacks(ctypes.sizeof(_Callbacks), _ModuleFunctions(self._module_functions))
        self._get_table = _GetTable(self._export_table)
        self._domains: dict[str | None, int | None] = {None: None}
        self._library = ctypes.CDLL(path)
        initialize = self._library.InitializeInjectionNvtx2
        initialize.argtypes, initialize.restype = [_GetTable], ctypes.c_int
        taken = initialize(self._get_table) == 1
        push, pop, create = (self._functions[i] or 0 for i in (_DOMAIN_PUSH_EX, _DOMAIN_POP, _DOMAIN_CREATE_A))
        self.is_there = taken and bool(push and pop)
        if self.is_there:
            self.push, self.pop = _PushEx(push), _Pop(pop)
            self._create = _CreateA(create) if create else None

    def _export_table(self, table: int) -> int | None:
        return ctypes.addressof(self._callbacks) if table == _TABLE_OF_CALLBACKS else None

    def _module_functions(self, module: int, table: Any, size: Any) -> int:
        if module != _MODULE_CORE2:
            return 0
        table[0] = self._table
        if size:
            size[0] = _CORE2_FUNCTIONS
        return 1

    def domain(self, name: str | None) -> int | None:
        if name not in self._domains and self._create:
            self._domains[name] = self._create(_bytes(name or ""))
        return self._domains.get(name)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace").replace(b"\0", b"")


_lock = threading.Lock()
_UNKNOWN = object()
_injection: Any = _UNKNOWN


def _load() -> _Injection | None:
    """As NVTX does, at the first range: ``None`` where nothing takes ranges."""
    global _injection
    with _lock:
        if _injection is _UNKNOWN:
            _injection = None
            if path := os.environ.get("NVTX_INJECTION64_PATH"):
                try:
                    loaded = _Injection(path)
                    _injection = loaded if loaded.is_there else None
                except (OSError, AttributeError) as error:
                    warnings.warn(f"NVTX_INJECTION64_PATH: no ranges are recorded: {error}", stacklevel=4)
        return _injection  # type: ignore[no-any-return]


class annotate:
    """Names a part of the program, as a context manager or a decorator::

        with nccl_otf2.annotate("forward"):
            ...

        @nccl_otf2.annotate("load a batch", domain="data")
        def load(): ...

        for step in range(steps):
            with nccl_otf2.annotate("step", payload=step):
                ...

    The range belongs to the calling thread. It is an NVTX range: the library that ``NVTX_INJECTION64_PATH`` names gets
    it, which ``nccl-otf2 run`` and :func:`nccl_otf2.env` set to the plugin. Without such a library nothing happens.

    ``domain`` groups ranges, ``payload`` is a number that is kept with the range, and ``color`` is ``0xRRGGBB`` or
    ``"#rrggbb"``. A wrong argument is an error here, whether or not ranges are recorded. A range that contains an
    ``await`` may end after another one of its thread that began later: give it a domain of its own.
    """

    __slots__ = ("_attributes", "_domain", "_given")

    def __init__(
        self,
        name: str,
        *,
        domain: str | None = None,
        payload: SupportsIndex | SupportsFloat | None = None,
        color: int | str | None = None,
    ) -> None:
        if not isinstance(name, str):
            hint = ": write @annotate(NAME) above a function" if callable(name) else ""
            raise TypeError(f"the name of a range is a text, not {name!r}{hint}")
        self._given = str(name), _number(payload), _color(color)
        self._domain = None if domain is None else str(domain)
        self._attributes: _Attributes | None = None

    def __enter__(self) -> annotate:
        injection = _load() if _injection is _UNKNOWN else _injection
        if injection is not None:
            if self._attributes is None:
                self._attributes = _attributes(*self._given)
            injection.push(injection.domain(self._domain), self._attributes)
        return self

    def __exit__(self, *error: object) -> None:
        if _injection is not None:
            _injection.pop(_injection.domain(self._domain))

    def __call__(self, function: _F) -> _F:
        if isinstance(function, (type, staticmethod)) or not callable(function):
            raise TypeError(
                f"annotate names the calls of a function, not {function!r}: "
                "put it under @staticmethod, @classmethod or @property, and on the methods of a class"
            )
        if any(is_left(it) for it in (function, type(function).__call__) for is_left in _LEFT):
            raise TypeError(f"{function!r} is left and entered again while it runs: use annotate inside it")

        @functools.wraps(function)
        def annotated(*arguments: Any, **named: Any) -> Any:
            with self:
                return function(*arguments, **named)

        return annotated  # type: ignore[return-value]


#: Functions that are left before they end.
_LEFT = inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction


def _number(payload: Any) -> int | float | None:
    """Numbers of other libraries become Python's, so that no range fails only where it is recorded."""
    if payload is None:
        return None
    if isinstance(payload, (str, bytes, bytearray)):
        raise TypeError(f"payload is a number, not {payload!r}")
    try:
        number = operator.index(payload)
    except TypeError:
        return float(payload)
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"payload {number} does not fit into 64 bits")
    return number


def _color(color: int | str | None) -> int | None:
    if color is None:
        return None
    if isinstance(color, str):
        number = int(color[1:], 16) if re.fullmatch("#[0-9a-fA-F]{6}", color) else -1
    else:
        number = operator.index(color)
    if not 0 <= number <= 0xFFFFFF:
        raise ValueError(f"color is 0xRRGGBB or '#rrggbb', not {color!r}")
    return number


def _attributes(name: str, payload: int | float | None, color: int | None) -> _Attributes:
    it = _Attributes(version=3, size=ctypes.sizeof(_Attributes), message_type=_UTF8, message=_bytes(name))
    if isinstance(payload, float):
        it.payload_type, it.payload.double = _DOUBLE, payload
    elif payload is not None:
        it.payload_type, it.payload.integer = _INT64, payload
    if color is not None:
        it.color_type, it.color = _ARGB, 0xFF000000 | color
    return it
