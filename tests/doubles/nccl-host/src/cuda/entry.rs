//! The entry points of the CUDA runtime, by name, and where to find them.

use super::Cuda;
use anyhow::Context as _;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::path::Path;

/// Streams, graphs, device addresses.
pub(super) type Pointer = *mut c_void;

/// Where a job without `--cudart` looks, in this order.
const NAMES: [&str; 3] = ["libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"];

/// A name that only the stand-in exports.
const FAKE_MARK: &[u8] = b"fakegpu_install";

macro_rules! entries {
    ($($field:ident: $name:literal, $ty:ty;)*) => {
        /// Addresses of the runtime's functions.
        #[derive(Debug)]
        pub(super) struct Entry {
            $(pub(super) $field: $ty,)*
            /// cudaGraphInstantiate changed its parameters with CUDA 12; this one has the same ones in all.
            pub(super) graph_instantiate: GraphInstantiate,
        }

        impl Entry {
            fn load(library: &Library) -> anyhow::Result<Entry> {
                Ok(Entry {
                    $($field: {
                        // SAFETY: the type is the one cuda_runtime_api.h declares for this name since CUDA 11.
                        let symbol = unsafe { library.get::<$ty>($name.as_bytes()) };
                        *symbol.with_context(|| format!("no {} in the CUDA runtime", $name))?
                    },)*
                    graph_instantiate: graph_instantiate(library)?,
                })
            }
        }
    };
}

type GraphInstantiate = unsafe extern "C" fn(*mut Pointer, Pointer, c_ulonglong) -> c_int;

entries! {
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
    graph_launch: "cudaGraphLaunch", unsafe extern "C" fn(Pointer, Pointer) -> c_int;
    graph_exec_destroy: "cudaGraphExecDestroy", unsafe extern "C" fn(Pointer) -> c_int;
    graph_destroy: "cudaGraphDestroy", unsafe extern "C" fn(Pointer) -> c_int;
}

fn graph_instantiate(library: &Library) -> anyhow::Result<GraphInstantiate> {
    // SAFETY: the type is the one declared for this name since it exists (CUDA 11.4).
    let with_flags = unsafe { library.get::<GraphInstantiate>(b"cudaGraphInstantiateWithFlags") };
    with_flags.map(|symbol| *symbol).context(
        "no cudaGraphInstantiateWithFlags in the CUDA runtime: CUDA 11.4 or later is needed",
    )
}

pub(super) fn find(given: Option<&Path>) -> anyhow::Result<Cuda> {
    let process = Library::this();
    if given.is_none() && has(&process, b"cudaMalloc") {
        let is_fake = has(&process, FAKE_MARK);
        let origin = if is_fake {
            "the stand-in"
        } else {
            "already in the process"
        };
        return cuda(process, origin.to_owned(), is_fake);
    }
    if let Some(path) = given {
        return cuda(
            open(path).context("--cudart")?,
            path.display().to_string(),
            false,
        );
    }
    let mut reasons = Vec::new();
    for name in NAMES {
        match open(Path::new(name)) {
            Ok(library) => return cuda(library, name.to_owned(), false),
            Err(error) => reasons.push(format!("{error:#}")),
        }
    }
    anyhow::bail!(
        "no CUDA runtime: give its path with --cudart, put it on LD_LIBRARY_PATH, or use --fake-gpu ({})",
        reasons.join("; ")
    )
}

fn open(path: &Path) -> anyhow::Result<Library> {
    // SAFETY: runs the constructors of the CUDA runtime the user named or installed.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    library.with_context(|| format!("cannot load {}", path.display()))
}

fn has(library: &Library, name: &[u8]) -> bool {
    // SAFETY: only the presence of the name is looked at; nothing is called through the pointer.
    unsafe { library.get::<Pointer>(name) }.is_ok()
}

fn cuda(library: Library, origin: String, is_fake: bool) -> anyhow::Result<Cuda> {
    let entry = Entry::load(&library).with_context(|| format!("CUDA runtime ({origin})"))?;
    // Never unmapped: streams and buffers hold its functions until the process ends.
    let _ = library.into_raw();
    Ok(Cuda {
        entry,
        origin,
        is_fake,
        keeps_memory: false,
    })
}
