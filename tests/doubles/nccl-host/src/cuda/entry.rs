//! The entry points of the CUDA runtime, by name.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

pub(super) type Pointer = *mut c_void;

c_double::functions! {
    /// As cuda_runtime_api.h declares them since CUDA 11.4.
    #[derive(Debug)]
    pub(super) struct Entry {
        get_error_string: "cudaGetErrorString", unsafe extern "C" fn(c_int) -> *const c_char;
        get_device_count: "cudaGetDeviceCount", unsafe extern "C" fn(*mut c_int) -> c_int;
        set_device: "cudaSetDevice", unsafe extern "C" fn(c_int) -> c_int;
        malloc: "cudaMalloc", unsafe extern "C" fn(*mut Pointer, usize) -> c_int;
        free: "cudaFree", unsafe extern "C" fn(Pointer) -> c_int;
        memcpy_async: "cudaMemcpyAsync", unsafe extern "C" fn(Pointer, *const c_void, usize, c_int, Pointer) -> c_int;
        stream_create: "cudaStreamCreateWithFlags", unsafe extern "C" fn(*mut Pointer, c_uint) -> c_int;
        stream_synchronize: "cudaStreamSynchronize", unsafe extern "C" fn(Pointer) -> c_int;
        stream_destroy: "cudaStreamDestroy", unsafe extern "C" fn(Pointer) -> c_int;
        stream_begin_capture: "cudaStreamBeginCapture", unsafe extern "C" fn(Pointer, c_int) -> c_int;
        stream_end_capture: "cudaStreamEndCapture", unsafe extern "C" fn(Pointer, *mut Pointer) -> c_int;
        // cudaGraphInstantiate changed its parameters with CUDA 12; this one has the same ones in all.
        graph_instantiate: "cudaGraphInstantiateWithFlags", unsafe extern "C" fn(*mut Pointer, Pointer, c_ulonglong) -> c_int;
        graph_launch: "cudaGraphLaunch", unsafe extern "C" fn(Pointer, Pointer) -> c_int;
        graph_exec_destroy: "cudaGraphExecDestroy", unsafe extern "C" fn(Pointer) -> c_int;
        graph_destroy: "cudaGraphDestroy", unsafe extern "C" fn(Pointer) -> c_int;
    } optional {}
}
