//! The functions of CUDA's driver that the plugin calls, each found by name in the library that the process has loaded.
//! The plugin never loads the driver: NCCL loads it before it makes a communicator, and a process without a driver does
//! not need it. A function that an old driver lacks gives [`CudaError::MISSING`]. Types and numbers come from cudarc.
//! Calls do not go through cudarc, which loads libraries, panics if a function is missing, and reads results into an
//! enumeration that lacks the codes of newer drivers. Unlike the runtime's functions, the driver's leave no error for
//! `cudaGetLastError`.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;

use cudarc::driver::sys::{
    CUevent_flags, CUstream_flags, CUstreamCaptureMode, CUstreamCaptureStatus, cudaError_enum as Code,
};

pub(crate) use cudarc::driver::sys::CUdevice_attribute as Attribute;

/// A handle of the driver: a pointer that only the driver follows. Integers are passed in the same way.
pub(crate) type Handle = u64;
const _: () = assert!(size_of::<Handle>() == size_of::<*const c_void>());

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CudaContext(pub(super) Handle);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceContext {
    pub(crate) context: CudaContext,
    pub(crate) ordinal: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event(pub(super) Handle);

/// A stream that the plugin made, or whose handle NCCL passed. 0 is the legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream(pub(super) Handle);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CudaError(pub(super) c_int);

impl CudaError {
    pub(crate) const MISSING: Self = Self(-1);
    pub(crate) const NO_EVENTS: Self = Self(-2);
    /// The process is ending: the driver has shut down.
    pub(crate) const DEINITIALIZED: Self = Self::from_code(Code::CUDA_ERROR_DEINITIALIZED);
    /// The library is a toolkit's stub, meant for linking only.
    pub(crate) const STUB_LIBRARY: Self = Self::from_code(Code::CUDA_ERROR_STUB_LIBRARY);
    const INVALID_DEVICE: Self = Self::from_code(Code::CUDA_ERROR_INVALID_DEVICE);
    const INVALID_CONTEXT: Self = Self::from_code(Code::CUDA_ERROR_INVALID_CONTEXT);
    const NOT_READY: Self = Self::from_code(Code::CUDA_ERROR_NOT_READY);
    /// Called from a host function in a stream.
    pub(crate) const NOT_PERMITTED: Self = Self::from_code(Code::CUDA_ERROR_NOT_PERMITTED);

    /// The codes that can occur here, with names for the user.
    const NAMED: [Code; 21] = [
        Code::CUDA_ERROR_INVALID_VALUE,
        Code::CUDA_ERROR_OUT_OF_MEMORY,
        Code::CUDA_ERROR_NOT_INITIALIZED,
        Code::CUDA_ERROR_DEINITIALIZED,
        Code::CUDA_ERROR_STUB_LIBRARY,
        Code::CUDA_ERROR_NO_DEVICE,
        Code::CUDA_ERROR_INVALID_DEVICE,
        Code::CUDA_ERROR_INVALID_CONTEXT,
        Code::CUDA_ERROR_INVALID_HANDLE,
        Code::CUDA_ERROR_NOT_READY,
        Code::CUDA_ERROR_ILLEGAL_ADDRESS,
        Code::CUDA_ERROR_LAUNCH_TIMEOUT,
        Code::CUDA_ERROR_CONTEXT_IS_DESTROYED,
        Code::CUDA_ERROR_LAUNCH_FAILED,
        Code::CUDA_ERROR_NOT_PERMITTED,
        Code::CUDA_ERROR_NOT_SUPPORTED,
        Code::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
        Code::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        Code::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        Code::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
        Code::CUDA_ERROR_UNKNOWN,
    ];

    const fn from_code(code: Code) -> Self {
        Self((code as u32).cast_signed())
    }

    /// Whether the error means that the stream, or one that it synchronises with, is being captured.
    pub(crate) const fn is_capture_error(self) -> bool {
        Self::from_code(Code::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED).0 <= self.0
            && self.0 <= Self::from_code(Code::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD).0
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::NAMED.iter().find(|code| Self::from_code(**code) == *self);
        match known {
            _ if *self == Self::MISSING => formatter.write_str("the driver is too old to have the function"),
            Some(code) => write!(formatter, "{code:?} ({})", self.0),
            None => write!(formatter, "CUDA error ({})", self.0),
        }
    }
}

impl fmt::Debug for CudaError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Events record times, and no thread blocks on them (no `CU_EVENT_BLOCKING_SYNC`).
const EVENT_DEFAULT: c_uint = CUevent_flags::CU_EVENT_DEFAULT as c_uint;
const NON_BLOCKING: c_uint = CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
const NOT_CAPTURING: c_int = (CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as u32).cast_signed();
const RELAXED: c_int = (CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as u32).cast_signed();

macro_rules! functions {
    ($($name:ident = $first:literal $(or $second:literal)?, ($($argument:ident: $type:ty),*);)*) => {
        /// The driver's functions; `None` for functions that it lacks.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Functions {
            $(pub(crate) $name: Option<unsafe extern "C" fn($($type),*) -> c_int>,)*
        }

        impl Functions {
            fn load(library: *mut c_void) -> Self {
                Self {
                    $($name: {
                        let address = find(library, $first);
                        $(let address = if address.is_null() { find(library, $second) } else { address };)?
                        type Function = unsafe extern "C" fn($($type),*) -> c_int;
                        // SAFETY: a null pointer is `None`, any other is the driver's function of this name. A
                        // function's type never changes: an incompatible version gets a new name (`_v2`).
                        unsafe { std::mem::transmute::<*mut c_void, Option<Function>>(address) }
                    },)*
                }
            }

            $(
                /// Calls the function, or returns an error if the driver lacks it.
                ///
                /// # Safety
                /// The arguments meet the requirements in CUDA's documentation of the function.
                #[inline]
                unsafe fn $name(&self, $($argument: $type),*) -> Result<(), CudaError> {
                    match self.$name {
                        // SAFETY: the contract.
                        Some(function) => done(unsafe { function($($argument),*) }),
                        None => Err(CudaError::MISSING),
                    }
                }
            )*
        }
    };
}

functions! {
    driver_version = c"cuDriverGetVersion", (version: *mut c_int);
    context_current = c"cuCtxGetCurrent", (context: *mut Handle);
    context_device = c"cuCtxGetDevice", (device: *mut c_int);
    context_push = c"cuCtxPushCurrent_v2", (context: Handle);
    context_pop = c"cuCtxPopCurrent_v2", (context: *mut Handle);
    primary_state = c"cuDevicePrimaryCtxGetState", (device: c_int, flags: *mut c_uint, is_active: *mut c_int);
    device_name = c"cuDeviceGetName", (name: *mut c_char, length: c_int, device: c_int);
    device_uuid = c"cuDeviceGetUuid", (uuid: *mut [u8; 16], device: c_int);
    device_uuid_of_instance = c"cuDeviceGetUuid_v2", (uuid: *mut [u8; 16], device: c_int);
    device_attribute = c"cuDeviceGetAttribute", (value: *mut c_int, attribute: c_int, device: c_int);
    exchange_capture_mode = c"cuThreadExchangeStreamCaptureMode", (mode: *mut c_int);
    stream_is_capturing = c"cuStreamIsCapturing", (stream: Handle, status: *mut c_int);
    stream_create = c"cuStreamCreate", (stream: *mut Handle, flags: c_uint);
    stream_destroy = c"cuStreamDestroy_v2" or c"cuStreamDestroy", (stream: Handle);
    event_create = c"cuEventCreate", (event: *mut Handle, flags: c_uint);
    event_record = c"cuEventRecord", (event: Handle, stream: Handle);
    event_query = c"cuEventQuery", (event: Handle);
    event_elapsed = c"cuEventElapsedTime", (elapsed_ms: *mut f32, from: Handle, to: Handle);
    event_destroy = c"cuEventDestroy_v2" or c"cuEventDestroy", (event: Handle);
}

fn find(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the handle belongs to a library that stays open; the name ends with NUL.
    unsafe { libc::dlsym(library, name.as_ptr()) }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Driver {
    functions: Functions,
}

const fn done(code: c_int) -> Result<(), CudaError> {
    match code {
        0 => Ok(()),
        code => Err(CudaError(code)),
    }
}

/// Returns the value that a function writes through its pointer.
#[inline]
fn written<T: Default>(call: impl FnOnce(*mut T) -> Result<(), CudaError>) -> Result<T, CudaError> {
    let mut value = T::default();
    call(&raw mut value)?;
    Ok(value)
}

impl Driver {
    /// The driver, if the process has loaded it. Calls no driver function, and keeps the driver loaded.
    pub(crate) fn find_loaded() -> Option<Self> {
        let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
        // SAFETY: with RTLD_NOLOAD the call only adds a reference to a loaded library; none of its code runs.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), flags) };
        (!library.is_null()).then(|| Self::new(Functions::load(library)))
    }

    pub(crate) const fn new(functions: Functions) -> Self {
        Self { functions }
    }

    pub(crate) fn version(&self) -> Result<u32, CudaError> {
        // SAFETY: writes an integer; may be called before any other function.
        written(|version| unsafe { self.functions.driver_version(version) }).map(i32::cast_unsigned)
    }

    #[inline]
    pub(crate) fn current(&self) -> Result<CudaContext, CudaError> {
        // SAFETY: writes a handle.
        written(|context| unsafe { self.functions.context_current(context) }).map(CudaContext)
    }

    /// The calling thread's current context and its device. The driver's device handles are ordinals.
    pub(crate) fn current_device_context(&self) -> Result<DeviceContext, CudaError> {
        let context = self.current()?;
        if context.0 == 0 {
            return Err(CudaError::INVALID_CONTEXT);
        }
        // SAFETY: writes an integer.
        let device = written(|device| unsafe { self.functions.context_device(device) })?;
        let ordinal = u32::try_from(device).map_err(|_| CudaError::INVALID_DEVICE)?;
        Ok(DeviceContext { context, ordinal })
    }

    pub(crate) fn push(&self, context: CudaContext) -> Result<(), CudaError> {
        // SAFETY: the driver returned this handle for a context of this process, and rejects it if the context is gone.
        unsafe { self.functions.context_push(context.0) }
    }

    pub(crate) fn pop(&self) {
        // SAFETY: writes a handle.
        let _ignored = written(|context| unsafe { self.functions.context_pop(context) });
    }

    pub(crate) fn has_primary(&self, ordinal: u32) -> Result<bool, CudaError> {
        let mut flags = 0;
        let device = ordinal.cast_signed();
        // SAFETY: writes two integers; the driver rejects an unknown device.
        let is_active =
            written(|is_active| unsafe { self.functions.primary_state(device, &raw mut flags, is_active) })?;
        Ok(is_active != 0)
    }

    pub(crate) fn device_name(&self, ordinal: u32) -> Result<CString, CudaError> {
        let mut name = vec![0_u8; 256];
        let place = name.as_mut_ptr().cast();
        // SAFETY: writes at most the given number of bytes, one fewer than the buffer has.
        unsafe { self.functions.device_name(place, 255, ordinal.cast_signed()) }?;
        name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(0));
        Ok(CString::new(name).unwrap_or_default())
    }

    pub(crate) fn device_uuid(&self, ordinal: u32) -> Result<[u8; 16], CudaError> {
        // SAFETY: writes sixteen bytes.
        written(|uuid| unsafe { self.functions.device_uuid(uuid, ordinal.cast_signed()) })
    }

    /// The UUID of the MIG instance, if the device is one (CUDA 11.4 and later).
    pub(crate) fn instance_uuid(&self, ordinal: u32) -> Result<[u8; 16], CudaError> {
        // SAFETY: writes sixteen bytes.
        written(|uuid| unsafe { self.functions.device_uuid_of_instance(uuid, ordinal.cast_signed()) })
    }

    pub(crate) fn attribute(&self, attribute: Attribute, ordinal: u32) -> Result<u32, CudaError> {
        let (attribute, device) = ((attribute as u32).cast_signed(), ordinal.cast_signed());
        // SAFETY: writes an integer; the driver rejects an unknown attribute.
        let value = written(|value| unsafe { self.functions.device_attribute(value, attribute, device) });
        value.map(i32::cast_unsigned)
    }

    /// Allows the calling thread to make and query events while another thread captures a stream in the global mode.
    /// That mode otherwise forbids both on every thread of the process, and a violation invalidates the capture
    /// (`cudaThreadExchangeStreamCaptureMode`, CUDA Runtime API, Stream Management).
    pub(crate) fn relax_captures(&self) -> Result<(), CudaError> {
        let mut mode = RELAXED;
        // SAFETY: reads and writes an integer, and affects only the calling thread.
        unsafe { self.functions.exchange_capture_mode(&raw mut mode) }
    }

    /// Whether a stream is being captured. While a stream that waits for the legacy default stream is captured, the
    /// driver returns an error for the legacy stream, which counts as a capture too.
    #[inline]
    pub(crate) fn is_capturing(&self, stream: Stream) -> Result<bool, CudaError> {
        let mut status = NOT_CAPTURING;
        // SAFETY: NCCL launches into this stream next; writes an integer.
        match unsafe { self.functions.stream_is_capturing(stream.0, &raw mut status) } {
            Ok(()) => Ok(status != NOT_CAPTURING),
            Err(error) if error.is_capture_error() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Creates a stream in the current context that waits for no other stream.
    pub(crate) fn create_stream(&self) -> Result<Stream, CudaError> {
        // SAFETY: writes a handle.
        written(|stream| unsafe { self.functions.stream_create(stream, NON_BLOCKING) }).map(Stream)
    }

    pub(crate) fn destroy_stream(&self, stream: Stream) -> Result<(), CudaError> {
        // SAFETY: the context exists, and the stream is no longer used.
        unsafe { self.functions.stream_destroy(stream.0) }
    }

    pub(crate) fn create_event(&self) -> Result<Event, CudaError> {
        // SAFETY: writes a handle.
        written(|event| unsafe { self.functions.event_create(event, EVENT_DEFAULT) }).map(Event)
    }

    /// Records an event in a stream. Both belong to the current context; otherwise the driver returns an error.
    #[inline]
    pub(crate) fn record(&self, event: Event, stream: Stream) -> Result<(), CudaError> {
        // SAFETY: the plugin made the event, and does not destroy it while its context is in use.
        unsafe { self.functions.event_record(event.0, stream.0) }
    }

    pub(crate) fn is_past(&self, event: Event) -> Result<bool, CudaError> {
        // SAFETY: as for `record`.
        match unsafe { self.functions.event_query(event.0) } {
            Ok(()) => Ok(true),
            Err(CudaError::NOT_READY) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The milliseconds between two passed events of one context; negative if the second event came first.
    pub(crate) fn elapsed_ms(&self, from: Event, to: Event) -> Result<f32, CudaError> {
        // SAFETY: as for `record`; writes a number.
        written(|elapsed| unsafe { self.functions.event_elapsed(elapsed, from.0, to.0) })
    }

    pub(crate) fn destroy_event(&self, event: Event) -> Result<(), CudaError> {
        // SAFETY: as for `destroy_stream`.
        unsafe { self.functions.event_destroy(event.0) }
    }
}

#[cfg(test)]
mod tests;
