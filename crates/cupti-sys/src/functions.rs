//! The functions, each of which a release may lack: what is there is asked of the library, not of its version.

use std::ffi::{CStr, c_char, c_int, c_void};

/// `CUpti_SubscriberHandle`.
pub type Subscriber = *mut c_void;
/// `CUpti_CallbackFunc`: user data, domain, callback id, data.
pub type Callback = extern "C" fn(*mut c_void, c_int, u32, *const c_void);
/// CUPTI wants an empty buffer: where to write its address, its size in bytes, and how many records go in (0: all).
pub type BufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// A buffer comes back: context, stream, address, size, bytes that are valid.
pub type BufferCompleted = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
/// As [`BufferRequested`], for one subscriber; the last argument is a `CUpti_BufferCallbackRequestInfo`.
pub type SubscriberBufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize, *mut c_void);
/// As [`BufferCompleted`], for one subscriber: address, size, valid bytes, a `CUpti_BufferCallbackCompleteInfo`.
pub type SubscriberBufferCompleted = extern "C" fn(*mut u8, usize, usize, *mut c_void);

/// `CUpti_SubscriberParams` as of CUDA 13.2; the one structure that a caller fills.
#[repr(C)]
#[derive(Debug)]
pub struct SubscriberParams {
    /// Bytes of this structure up to its padding, which is how CUPTI knows which fields there are.
    pub struct_size: usize,
    /// The tool's name.
    pub subscriber_name: *const c_char,
    /// Where CUPTI writes who else is there; may be NULL.
    pub old_subscriber_name: *mut c_char,
    /// Bytes there, at least 64.
    pub old_subscriber_size: usize,
    /// 1: others may use CUPTI too.
    pub allow_multiple_subscribers: u8,
    /// Zero.
    pub padding: [u8; 7],
}

/// The least room for the name of another subscriber.
pub const OLD_SUBSCRIBER_NAME_BYTES: usize = 64;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal ($($argument:ident: $type:ty),*);)*) => {
        /// One pointer per function, NULL where the library does not export it. All give a `CUptiResult`. Those whose
        /// name ends in `_v2` do for one subscriber what the others do for the process.
        #[derive(Clone, Copy, Debug, Default)]
        #[expect(missing_docs, reason = "CUPTI's functions, by CUPTI's names")]
        pub struct Functions {
            $($(#[$doc])* pub $name: Option<unsafe extern "C" fn($($argument: $type),*) -> c_int>,)*
        }

        impl Functions {
            /// Takes what `symbol` finds.
            ///
            /// # Safety
            /// What `symbol` gives for a name is NULL or CUPTI's function of that name, and stays callable.
            pub unsafe fn find(symbol: impl Fn(&CStr) -> *mut c_void) -> Self {
                Self {
                    $($name: {
                        let found = symbol($symbol);
                        (!found.is_null()).then(|| {
                            // SAFETY: the function of this name has this type (cupti.h); the rest is up to the caller.
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
    /// Which release; safe to call only where there is a driver ([`crate::driver`]).
    get_version = c"cuptiGetVersion" (version: *mut u32);
    subscribe = c"cuptiSubscribe" (subscriber: *mut Subscriber, callback: Callback, user_data: *mut c_void);
    subscribe_v2 = c"cuptiSubscribe_v2" (
        subscriber: *mut Subscriber, callback: Callback, user_data: *mut c_void, params: *mut SubscriberParams
    );
    unsubscribe = c"cuptiUnsubscribe" (subscriber: Subscriber);
    is_tracing_session_running = c"cuptiIsTracingSessionRunning" (is_running: *mut u8);

    /// Says where buffers come from and go to: one pair in the process, the last counts.
    register_callbacks = c"cuptiActivityRegisterCallbacks" (requested: BufferRequested, completed: BufferCompleted);
    register_callbacks_v2 = c"cuptiActivityRegisterCallbacks_v2" (
        subscriber: Subscriber, requested: SubscriberBufferRequested, completed: SubscriberBufferCompleted
    );
    set_attribute = c"cuptiActivitySetAttribute" (attribute: u32, size: *mut usize, value: *mut c_void);
    set_attribute_v2 = c"cuptiActivitySetAttribute_v2" (
        subscriber: Subscriber, attribute: u32, size: *mut usize, value: *mut c_void
    );
    enable = c"cuptiActivityEnable" (kind: u32);
    /// With NULL as configuration: the records that all releases have.
    enable_v2 = c"cuptiActivityEnable_v2" (subscriber: Subscriber, kind: u32, config: *mut c_void);
    /// Turns a kind of records off, for the whole process.
    disable = c"cuptiActivityDisable" (kind: u32);
    disable_v2 = c"cuptiActivityDisable_v2" (subscriber: Subscriber, kind: u32, config: *mut c_void);
    /// Records of one driver function on or off; from CUDA 12.5 on.
    enable_driver_api = c"cuptiActivityEnableDriverApi" (cbid: u32, enable: u8);
    enable_driver_api_v2 = c"cuptiActivityEnableDriverApi_v2" (subscriber: Subscriber, cbid: u32, enable: u8);
    /// Records of one runtime function on or off; from CUDA 12.5 on.
    enable_runtime_api = c"cuptiActivityEnableRuntimeApi" (cbid: u32, enable: u8);
    enable_runtime_api_v2 = c"cuptiActivityEnableRuntimeApi_v2" (subscriber: Subscriber, cbid: u32, enable: u8);
    /// What this thread calls from here on belongs to this id.
    push = c"cuptiActivityPushExternalCorrelationId" (kind: u32, id: u64);
    push_v2 = c"cuptiActivityPushExternalCorrelationId_v2" (subscriber: Subscriber, kind: u32, id: u64);
    /// Takes the last id of this thread away, and says which it was.
    pop = c"cuptiActivityPopExternalCorrelationId" (kind: u32, last: *mut u64);
    pop_v2 = c"cuptiActivityPopExternalCorrelationId_v2" (subscriber: Subscriber, kind: u32, last: *mut u64);
    /// Gives back the buffers of all subscribers; blocks until that is done.
    flush_all = c"cuptiActivityFlushAll" (flag: u32);
    /// The record after `record`, or the first where that is NULL.
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
