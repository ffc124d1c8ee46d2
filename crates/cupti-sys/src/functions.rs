//! CUPTI's functions. A release may lack any of them, so they are looked up by name, not by the library's version.

use std::ffi::{CStr, c_char, c_int, c_void};

/// `CUpti_SubscriberHandle`.
pub type Subscriber = *mut c_void;
/// `CUpti_CallbackFunc`: user data, domain, callback id, data.
pub type Callback = extern "C" fn(*mut c_void, c_int, u32, *const c_void);
/// CUPTI requests an empty buffer. Outputs: address, size in bytes, maximum number of records (0: no limit).
pub type BufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// CUPTI returns a buffer: context, stream, address, size in bytes, valid bytes.
pub type BufferCompleted = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
/// Like [`BufferRequested`], for one subscriber; the last argument is a `CUpti_BufferCallbackRequestInfo`.
pub type SubscriberBufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize, *mut c_void);
/// Like [`BufferCompleted`], for one subscriber: address, size, valid bytes, a `CUpti_BufferCallbackCompleteInfo`.
pub type SubscriberBufferCompleted = extern "C" fn(*mut u8, usize, usize, *mut c_void);

/// `CUpti_SubscriberParams` as of CUDA 13.2, the only structure that callers fill in.
#[repr(C)]
#[derive(Debug)]
pub struct SubscriberParams {
    /// Bytes of this structure without its padding, from which CUPTI knows the available fields.
    pub struct_size: usize,
    /// The tool's name, NUL-terminated.
    pub subscriber_name: *const c_char,
    /// Buffer for the name of a subscriber that exists already; may be NULL.
    pub old_subscriber_name: *mut c_char,
    /// Size of that buffer in bytes, at least 64.
    pub old_subscriber_size: usize,
    /// 1: other tools may use CUPTI as well.
    pub allow_multiple_subscribers: u8,
    /// Must be zero.
    pub padding: [u8; 7],
}

/// Minimum size of the buffer for the name of another subscriber, in bytes.
pub const OLD_SUBSCRIBER_NAME_BYTES: usize = 64;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal ($($argument:ident: $type:ty),*);)*) => {
        /// One pointer per function; NULL if the library lacks it. All return a `CUptiResult`. Functions whose names
        /// end in `_v2` do for one subscriber what the others do for the process.
        #[derive(Clone, Copy, Debug, Default)]
        #[expect(missing_docs, reason = "CUPTI's functions, by CUPTI's names")]
        pub struct Functions {
            $($(#[$doc])* pub $name: Option<unsafe extern "C" fn($($argument: $type),*) -> c_int>,)*
        }

        impl Functions {
            /// Looks up all functions with `symbol`.
            ///
            /// # Safety
            /// For each name `symbol` returns NULL or CUPTI's function with this name, which stays callable.
            pub unsafe fn find(symbol: impl Fn(&CStr) -> *mut c_void) -> Self {
                Self {
                    $($name: {
                        let found = symbol($symbol);
                        (!found.is_null()).then(|| {
                            // SAFETY: cupti.h declares this function with this type; the caller guarantees the rest.
                            unsafe {
                                std::mem::transmute::<
                                    *mut c_void,
                                    unsafe extern "C" fn($($argument: $type),*) -> c_int,
                                >(found)
                            }
                        })
                    },)*
                }
            }
        }
    };
}

functions! {
    /// Returns the release; may be called only if there is a driver ([`crate::driver`]).
    get_version = c"cuptiGetVersion" (version: *mut u32);
    subscribe = c"cuptiSubscribe" (subscriber: *mut Subscriber, callback: Callback, user_data: *mut c_void);
    subscribe_v2 = c"cuptiSubscribe_v2" (
        subscriber: *mut Subscriber, callback: Callback, user_data: *mut c_void, params: *mut SubscriberParams
    );
    unsubscribe = c"cuptiUnsubscribe" (subscriber: Subscriber);
    is_tracing_session_running = c"cuptiIsTracingSessionRunning" (is_running: *mut u8);

    /// Registers the callbacks for buffers: one pair per process, the last one wins.
    register_callbacks = c"cuptiActivityRegisterCallbacks" (requested: BufferRequested, completed: BufferCompleted);
    register_callbacks_v2 = c"cuptiActivityRegisterCallbacks_v2" (
        subscriber: Subscriber, requested: SubscriberBufferRequested, completed: SubscriberBufferCompleted
    );
    set_attribute = c"cuptiActivitySetAttribute" (attribute: u32, size: *mut usize, value: *mut c_void);
    set_attribute_v2 = c"cuptiActivitySetAttribute_v2" (
        subscriber: Subscriber, attribute: u32, size: *mut usize, value: *mut c_void
    );
    enable = c"cuptiActivityEnable" (kind: u32);
    /// With a NULL configuration, enables records with the fields that all releases have.
    enable_v2 = c"cuptiActivityEnable_v2" (subscriber: Subscriber, kind: u32, config: *mut c_void);
    /// Disables a kind of record for the whole process.
    disable = c"cuptiActivityDisable" (kind: u32);
    disable_v2 = c"cuptiActivityDisable_v2" (subscriber: Subscriber, kind: u32, config: *mut c_void);
    /// Enables or disables records of one driver function; since CUDA 12.5.
    enable_driver_api = c"cuptiActivityEnableDriverApi" (cbid: u32, enable: u8);
    enable_driver_api_v2 = c"cuptiActivityEnableDriverApi_v2" (subscriber: Subscriber, cbid: u32, enable: u8);
    /// Enables or disables records of one runtime function; since CUDA 12.5.
    enable_runtime_api = c"cuptiActivityEnableRuntimeApi" (cbid: u32, enable: u8);
    enable_runtime_api_v2 = c"cuptiActivityEnableRuntimeApi_v2" (subscriber: Subscriber, cbid: u32, enable: u8);
    /// Links later calls of this thread to this id.
    push = c"cuptiActivityPushExternalCorrelationId" (kind: u32, id: u64);
    push_v2 = c"cuptiActivityPushExternalCorrelationId_v2" (subscriber: Subscriber, kind: u32, id: u64);
    /// Removes this thread's last id and returns it.
    pop = c"cuptiActivityPopExternalCorrelationId" (kind: u32, last: *mut u64);
    pop_v2 = c"cuptiActivityPopExternalCorrelationId_v2" (subscriber: Subscriber, kind: u32, last: *mut u64);
    /// Returns the buffers of all subscribers; blocks until done.
    flush_all = c"cuptiActivityFlushAll" (flag: u32);
    /// Returns the record after `record`, or the first one if `record` is NULL.
    get_next_record = c"cuptiActivityGetNextRecord" (buffer: *mut u8, valid: usize, record: *mut *mut u8);
    get_next_record_v2 = c"cuptiActivityGetNextRecord_v2" (
        subscriber: Subscriber, buffer: *mut u8, valid: usize, record: *mut *mut u8
    );
    get_dropped = c"cuptiActivityGetNumDroppedRecords" (context: *mut c_void, stream: u32, dropped: *mut usize);
    get_dropped_v2 = c"cuptiActivityGetNumDroppedRecords_v2" (
        subscriber: Subscriber, context: *mut c_void, stream: u32, dropped: *mut usize
    );
    get_timestamp = c"cuptiGetTimestamp" (timestamp: *mut u64);
    get_timestamp_v2 = c"cuptiGetTimestamp_v2" (subscriber: Subscriber, timestamp: *mut u64);
}
