//! The few functions of CUDA's driver that are called, each found by name in the library that the process has.
//!
//! Nothing is ever loaded: NCCL has loaded the driver before it makes a communicator, and a process without one has no
//! use for it. A function that an old driver lacks is [`Refusal::MISSING`], never a panic. cudarc is not used for the
//! calls, only to test the numbers and types here: it looks for `libcuda.so` before `libcuda.so.1` and so may load the
//! stub of a toolkit beside the real driver, it panics where a library or a function is missing, and it reads results
//! into an enumeration that a newer driver's codes are outside of.
//!
//! The driver's functions, unlike the runtime's, leave no error behind for the program's next `cudaGetLastError`.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;

/// A handle of the driver's: a pointer that only it looks behind. As a number it is passed the same way.
pub(super) type Handle = u64;
const _: () = assert!(size_of::<Handle>() == size_of::<*const c_void>());

/// A CUDA context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CudaContext(pub(super) Handle);

/// An event that was made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event(pub(super) Handle);

/// A stream: one that was made here, or the handle that NCCL gave. 0 is the legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream(pub(super) Handle);

/// Why the driver did not do it: its code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) c_int);

impl Refusal {
    /// The driver has no such function.
    pub(super) const MISSING: Self = Self(-1);
    /// No driver's: there are no events for the context.
    pub(super) const NO_EVENTS: Self = Self(-2);
    /// The process is ending: the driver has shut down.
    pub(super) const DEINITIALIZED: Self = Self(4);
    /// A toolkit's stand-in for the driver, for linking only.
    pub(super) const STUB_LIBRARY: Self = Self(34);
    /// Not yet: no fault.
    pub(super) const NOT_READY: Self = Self(600);
    /// Called from a host function in a stream.
    pub(super) const NOT_PERMITTED: Self = Self(800);
    /// The first and the last code about captures of streams.
    const OF_CAPTURES: [c_int; 2] = [900, 908];

    /// Whether the stream, or another that it waits for, is being captured.
    pub(super) const fn is_of_capture(self) -> bool {
        let [first, last] = Self::OF_CAPTURES;
        first <= self.0 && self.0 <= last
    }

    const fn name(self) -> &'static str {
        match self.0 {
            1 => "CUDA_ERROR_INVALID_VALUE",
            2 => "CUDA_ERROR_OUT_OF_MEMORY",
            3 => "CUDA_ERROR_NOT_INITIALIZED",
            4 => "CUDA_ERROR_DEINITIALIZED",
            34 => "CUDA_ERROR_STUB_LIBRARY",
            100 => "CUDA_ERROR_NO_DEVICE",
            101 => "CUDA_ERROR_INVALID_DEVICE",
            201 => "CUDA_ERROR_INVALID_CONTEXT",
            400 => "CUDA_ERROR_INVALID_HANDLE",
            600 => "CUDA_ERROR_NOT_READY",
            700 => "CUDA_ERROR_ILLEGAL_ADDRESS",
            702 => "CUDA_ERROR_LAUNCH_TIMEOUT",
            709 => "CUDA_ERROR_CONTEXT_IS_DESTROYED",
            719 => "CUDA_ERROR_LAUNCH_FAILED",
            800 => "CUDA_ERROR_NOT_PERMITTED",
            801 => "CUDA_ERROR_NOT_SUPPORTED",
            803 => "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            900 => "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            901 => "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
            906 => "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
            999 => "CUDA_ERROR_UNKNOWN",
            _ => "CUDA error",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::MISSING {
            formatter.write_str("the driver is too old to have the function")
        } else {
            write!(formatter, "{} ({})", self.name(), self.0)
        }
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// `CUdevice_attribute`, as far as asked for.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(super) enum Attribute {
    Multiprocessors = 16,
    PciBus = 33,
    PciDevice = 34,
    PciDomain = 50,
    ComputeMajor = 75,
    ComputeMinor = 76,
}

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DEFAULT`: with times, and nobody sleeps for it.
const EVENT_DEFAULT: c_uint = 0;
/// `CU_STREAM_CAPTURE_STATUS_NONE`.
const NOT_CAPTURING: c_int = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_int = 2;

macro_rules! functions {
    ($($name:ident = $first:literal $(or $second:literal)?, ($($argument:ty),*);)*) => {
        /// The driver's functions; `None` where it has none of that name.
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct Functions {
            $(pub(super) $name: Option<unsafe extern "C" fn($($argument),*) -> c_int>,)*
        }

        impl Functions {
            /// Finds them by name.
            fn of(library: *mut c_void) -> Self {
                Self {
                    $($name: {
                        let address = find(library, $first);
                        $(let address = if address.is_null() { find(library, $second) } else { address };)?
                        type Function = unsafe extern "C" fn($($argument),*) -> c_int;
                        // SAFETY: a null pointer is `None`, and any other is the driver's function of this name, whose
                        // type is fixed: an incompatible one gets a new name (`_v2`).
                        unsafe { std::mem::transmute::<*mut c_void, Option<Function>>(address) }
                    },)*
                }
            }
        }
    };
}

functions! {
    driver_version = c"cuDriverGetVersion", (*mut c_int);
    context_current = c"cuCtxGetCurrent", (*mut Handle);
    context_device = c"cuCtxGetDevice", (*mut c_int);
    context_push = c"cuCtxPushCurrent_v2", (Handle);
    context_pop = c"cuCtxPopCurrent_v2", (*mut Handle);
    primary_state = c"cuDevicePrimaryCtxGetState", (c_int, *mut c_uint, *mut c_int);
    device_name = c"cuDeviceGetName", (*mut c_char, c_int, c_int);
    device_uuid = c"cuDeviceGetUuid", (*mut [u8; 16], c_int);
    device_uuid_of_instance = c"cuDeviceGetUuid_v2", (*mut [u8; 16], c_int);
    device_attribute = c"cuDeviceGetAttribute", (*mut c_int, c_int, c_int);
    exchange_capture_mode = c"cuThreadExchangeStreamCaptureMode", (*mut c_int);
    stream_is_capturing = c"cuStreamIsCapturing", (Handle, *mut c_int);
    stream_create = c"cuStreamCreate", (*mut Handle, c_uint);
    stream_destroy = c"cuStreamDestroy_v2" or c"cuStreamDestroy", (Handle);
    event_create = c"cuEventCreate", (*mut Handle, c_uint);
    event_record = c"cuEventRecord", (Handle, Handle);
    event_query = c"cuEventQuery", (Handle);
    event_elapsed = c"cuEventElapsedTime", (*mut f32, Handle, Handle);
    event_destroy = c"cuEventDestroy_v2" or c"cuEventDestroy", (Handle);
}

fn find(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the handle is of a library that stays open; the name ends with NUL.
    unsafe { libc::dlsym(library, name.as_ptr()) }
}

/// CUDA's driver, as this process has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Driver {
    functions: Functions,
}

/// Calls a function if there is one. The call is one operation, whose reason the caller gives.
macro_rules! call {
    ($self:ident.$name:ident($($argument:expr),*)) => {
        match $self.functions.$name {
            // SAFETY: see where the macro is used.
            Some(function) => done(unsafe { function($($argument),*) }),
            None => Err(Refusal::MISSING),
        }
    };
}

const fn done(code: c_int) -> Result<(), Refusal> {
    match code {
        0 => Ok(()),
        code => Err(Refusal(code)),
    }
}

impl Driver {
    /// The driver, if the process has it loaded. Calls nothing of it, and keeps it loaded.
    pub(super) fn of_process() -> Option<Self> {
        let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
        // SAFETY: a library that is loaded already is only counted, so nothing of it is run; else NULL.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), flags) };
        (!library.is_null()).then(|| Self::new(Functions::of(library)))
    }

    /// A driver of these functions.
    pub(super) const fn new(functions: Functions) -> Self {
        Self { functions }
    }

    /// The version: 12080 for CUDA 12.8.
    pub(super) fn version(&self) -> Result<u32, Refusal> {
        let mut version = 0;
        // Writes an integer; may be called before anything else.
        call!(self.driver_version(&raw mut version))?;
        Ok(version.cast_unsigned())
    }

    /// The context that is current on the calling thread.
    #[inline]
    pub(super) fn current(&self) -> Result<CudaContext, Refusal> {
        let mut context = 0;
        // Writes a handle.
        call!(self.context_current(&raw mut context))?;
        Ok(CudaContext(context))
    }

    /// The device of the context that is current. The driver's handles of devices are their ordinals.
    pub(super) fn current_device(&self) -> Result<u32, Refusal> {
        let mut device = 0;
        // Writes an integer.
        call!(self.context_device(&raw mut device))?;
        u32::try_from(device).map_err(|_| Refusal(101))
    }

    /// Makes a context current on the calling thread until [`Self::pop`].
    pub(super) fn push(&self, context: CudaContext) -> Result<(), Refusal> {
        // A handle that the driver gave for a context of this process: it says so if that is no more.
        call!(self.context_push(context.0))
    }

    /// Undoes [`Self::push`].
    pub(super) fn pop(&self) {
        let mut context = 0;
        // Writes a handle.
        let _nobody_to_tell = call!(self.context_pop(&raw mut context));
    }

    /// Whether the primary context of a device is there.
    pub(super) fn has_primary(&self, ordinal: u32) -> Result<bool, Refusal> {
        let (mut flags, mut is_active) = (0, 0);
        let device = ordinal.cast_signed();
        // Writes two integers; a device that is none is refused.
        call!(self.primary_state(device, &raw mut flags, &raw mut is_active))?;
        Ok(is_active != 0)
    }

    /// The device's product name.
    pub(super) fn device_name(&self, ordinal: u32) -> Result<CString, Refusal> {
        let mut name = vec![0_u8; 256];
        let length = 255;
        // Writes at most as many bytes as said, one fewer than there are.
        call!(self.device_name(name.as_mut_ptr().cast(), length, ordinal.cast_signed()))?;
        name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(0));
        Ok(CString::new(name).unwrap_or_default())
    }

    /// The device's UUID: of the whole device.
    pub(super) fn device_uuid(&self, ordinal: u32) -> Result<[u8; 16], Refusal> {
        let mut uuid = [0; 16];
        // Writes sixteen bytes.
        call!(self.device_uuid(&raw mut uuid, ordinal.cast_signed()))?;
        Ok(uuid)
    }

    /// The UUID of the MIG instance, where the device is one (CUDA 11.4 and later).
    pub(super) fn instance_uuid(&self, ordinal: u32) -> Result<[u8; 16], Refusal> {
        let mut uuid = [0; 16];
        // Writes sixteen bytes.
        call!(self.device_uuid_of_instance(&raw mut uuid, ordinal.cast_signed()))?;
        Ok(uuid)
    }

    /// A number about a device.
    pub(super) fn attribute(&self, attribute: Attribute, ordinal: u32) -> Result<u32, Refusal> {
        let mut value = 0;
        let device = ordinal.cast_signed();
        // Writes an integer; an attribute that is none is refused.
        call!(self.device_attribute(&raw mut value, attribute as c_int, device))?;
        Ok(value.cast_unsigned())
    }

    /// From now on the calling thread may make and query events while another captures a stream in the global mode,
    /// which else forbids that to every thread of the process and spoils the capture
    /// (`cudaThreadExchangeStreamCaptureMode`, CUDA Runtime API, Stream Management).
    pub(super) fn relax_captures(&self) -> Result<(), Refusal> {
        let mut mode = RELAXED;
        // Reads and writes an integer, and changes only the calling thread.
        call!(self.exchange_capture_mode(&raw mut mode))
    }

    /// Whether a stream is being captured. What the driver refuses to say is a capture, too: the legacy default stream
    /// while another that waits for it is captured.
    #[inline]
    pub(super) fn is_capturing(&self, stream: Stream) -> Result<bool, Refusal> {
        let mut status = NOT_CAPTURING;
        // NCCL launches into this stream next; writes an integer.
        match call!(self.stream_is_capturing(stream.0, &raw mut status)) {
            Ok(()) => Ok(status != NOT_CAPTURING),
            Err(refusal) if refusal.is_of_capture() => Ok(true),
            Err(refusal) => Err(refusal),
        }
    }

    /// A stream in the current context that waits for none.
    pub(super) fn create_stream(&self) -> Result<Stream, Refusal> {
        let mut stream = 0;
        // Writes a handle.
        call!(self.stream_create(&raw mut stream, NON_BLOCKING))?;
        Ok(Stream(stream))
    }

    /// Ends a stream that [`Self::create_stream`] made.
    pub(super) fn destroy_stream(&self, stream: Stream) -> Result<(), Refusal> {
        // Of a context that answers, and not used any more.
        call!(self.stream_destroy(stream.0))
    }

    /// An event in the current context.
    pub(super) fn create_event(&self) -> Result<Event, Refusal> {
        let mut event = 0;
        // Writes a handle.
        call!(self.event_create(&raw mut event, EVENT_DEFAULT))?;
        Ok(Event(event))
    }

    /// Puts an event into a stream. Both are of the current context; where they are not, the driver refuses.
    #[inline]
    pub(super) fn record(&self, event: Event, stream: Stream) -> Result<(), Refusal> {
        // The event was made here and is not destroyed while its context is in use.
        call!(self.event_record(event.0, stream.0))
    }

    /// Whether the stream has come to the event.
    pub(super) fn is_past(&self, event: Event) -> Result<bool, Refusal> {
        // As with recording.
        match call!(self.event_query(event.0)) {
            Ok(()) => Ok(true),
            Err(Refusal::NOT_READY) => Ok(false),
            Err(refusal) => Err(refusal),
        }
    }

    /// Milliseconds between two events of a context that streams are past; negative where the second came first.
    pub(super) fn elapsed_ms(&self, from: Event, to: Event) -> Result<f32, Refusal> {
        let mut elapsed = 0.0;
        // As with recording; writes a number.
        call!(self.event_elapsed(&raw mut elapsed, from.0, to.0))?;
        Ok(elapsed)
    }

    /// Ends an event.
    pub(super) fn destroy_event(&self, event: Event) -> Result<(), Refusal> {
        // As with streams.
        call!(self.event_destroy(event.0))
    }
}

#[cfg(test)]
mod tests;
