//! The calls into CUPTI: one method per call, whichever of CUPTI's two families is in use.
//!
//! The global family is there in all releases; the family of a subscriber, from CUDA 13.3 on, is for processes in which
//! several tools use CUPTI. In one process they exclude each other.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use cupti_sys::Code;
use cupti_sys::functions::{Functions, Subscriber, SubscriberParams};

use super::buffers;

/// Set in forked children, where CUPTI is dead: its threads are not there.
static IN_CHILD: AtomicBool = AtomicBool::new(false);

/// Which family.
#[derive(Clone, Copy, Debug)]
enum Family {
    /// One for the process; the subscriber is only held against others.
    Global(Subscriber),
    /// A subscriber's own.
    Own(Subscriber),
}

/// CUPTI, subscribed to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    functions: Functions,
    family: Family,
}

// SAFETY: CUPTI's functions may be called on every thread, with the same subscriber; the handle is only handed back.
unsafe impl Send for Calls {}
// SAFETY: as above.
unsafe impl Sync for Calls {}

/// One call, if the release has the function and this is not a forked child.
macro_rules! call {
    ($function:expr $(, $argument:expr)*) => {
        match $function {
            Some(function) if !is_dead() => {
                // SAFETY: `cupti_sys` found the function under its name in CUPTI, which stays loaded, and there is a
                // driver. Pointers among the arguments are NULL or to variables of the caller's.
                Code(unsafe { function($($argument),*) })
            }
            Some(_) => Code::DISABLED,
            None => Code::API_NOT_IMPLEMENTED,
        }
    };
}

/// A call of the family that is in use.
macro_rules! by_family {
    ($self:ident, $global:ident, $own:ident $(, $argument:expr)*) => {
        match $self.family {
            Family::Global(_) => call!($self.functions.$global $(, $argument)*),
            Family::Own(subscriber) => call!($self.functions.$own, subscriber $(, $argument)*),
        }
    };
}

/// Whether this process is a forked child of the one that called CUPTI.
#[inline]
pub(super) fn is_dead() -> bool {
    IN_CHILD.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    IN_CHILD.store(true, Ordering::Relaxed);
}

/// Makes forked children stay away from CUPTI.
pub(super) fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let handler: unsafe extern "C" fn() = in_child;
        // SAFETY: the handler stores an atomic, and stays mapped (`-z nodelete`).
        let _failed = unsafe { libc::pthread_atfork(None, None, Some(handler)) };
    });
}

/// The callback that a subscription needs: no events are asked for, so it is never called.
extern "C" fn no_callback(_data: *mut c_void, _domain: c_int, _id: u32, _info: *const c_void) {}

/// The version, as `cuptiGetVersion` gives it.
pub(super) fn version(functions: &Functions) -> Result<u32, Code> {
    let mut version = 0;
    match call!(functions.get_version, &raw mut version) {
        Code::SUCCESS => Ok(version),
        code => Err(code),
    }
}

/// Whether somebody traces with CUPTI now, as far as the release can tell.
pub(super) fn is_session_running(functions: &Functions) -> bool {
    let mut running = 0;
    call!(functions.is_tracing_session_running, &raw mut running).is_success() && running != 0
}

/// Whether all functions of a subscriber's own family that are needed are there.
pub(super) const fn has_own_family(functions: &Functions) -> bool {
    functions.subscribe_v2.is_some()
        && functions.register_callbacks_v2.is_some()
        && functions.enable_v2.is_some()
        && functions.disable_v2.is_some()
        && functions.enable_driver_api_v2.is_some()
        && functions.push_v2.is_some()
        && functions.pop_v2.is_some()
        && functions.get_next_record_v2.is_some()
        && functions.get_timestamp_v2.is_some()
}

impl Calls {
    /// Becomes one subscriber of several. On failure also who holds CUPTI, if CUPTI says so.
    pub(super) fn subscribe_own(functions: Functions) -> Result<Self, (Code, String)> {
        let mut subscriber: Subscriber = ptr::null_mut();
        let mut holder = [0_u8; cupti_sys::functions::OLD_SUBSCRIBER_NAME_BYTES + 64];
        let mut params = SubscriberParams {
            struct_size: size_of::<SubscriberParams>(),
            subscriber_name: c"nccl-otf2".as_ptr(),
            old_subscriber_name: holder.as_mut_ptr().cast(),
            old_subscriber_size: holder.len() - 1,
            allow_multiple_subscribers: 1,
            padding: [0; 7],
        };
        let code = call!(
            functions.subscribe_v2,
            &raw mut subscriber,
            no_callback,
            ptr::null_mut(),
            &raw mut params
        );
        if code.is_success() {
            return Ok(Self {
                functions,
                family: Family::Own(subscriber),
            });
        }
        let name: Vec<u8> = holder.into_iter().take_while(|byte| *byte != 0).collect();
        Err((code, String::from_utf8_lossy(&name).into_owned()))
    }

    /// Becomes the one subscriber of the process.
    pub(super) fn subscribe_global(functions: Functions) -> Result<Self, Code> {
        let mut subscriber: Subscriber = ptr::null_mut();
        match call!(
            functions.subscribe,
            &raw mut subscriber,
            no_callback,
            ptr::null_mut()
        ) {
            Code::SUCCESS => Ok(Self {
                functions,
                family: Family::Global(subscriber),
            }),
            code => Err(code),
        }
    }

    /// Whether other tools of the process can use CUPTI at the same time.
    pub(super) const fn is_shared(&self) -> bool {
        matches!(self.family, Family::Own(_))
    }

    pub(super) fn unsubscribe(&self) -> Code {
        let (Family::Global(subscriber) | Family::Own(subscriber)) = self.family;
        call!(self.functions.unsubscribe, subscriber)
    }

    /// Says that buffers come from [`buffers`] and go back there, and that they are clean.
    pub(super) fn register_buffers(&self) -> Code {
        match self.family {
            Family::Global(_) => call!(
                self.functions.register_callbacks,
                buffers::requested,
                buffers::completed
            ),
            Family::Own(subscriber) => call!(
                self.functions.register_callbacks_v2,
                subscriber,
                buffers::requested_own,
                buffers::completed_own
            ),
        }
    }

    pub(super) fn set_attribute_u8(&self, attribute: u32, mut value: u8) -> Code {
        let mut size = size_of::<u8>();
        let value = (&raw mut value).cast();
        by_family!(
            self,
            set_attribute,
            set_attribute_v2,
            attribute,
            &raw mut size,
            value
        )
    }

    pub(super) fn enable(&self, kind: u32) -> Code {
        match self.family {
            Family::Global(_) => call!(self.functions.enable, kind),
            Family::Own(subscriber) => {
                call!(self.functions.enable_v2, subscriber, kind, ptr::null_mut())
            }
        }
    }

    pub(super) fn disable(&self, kind: u32) -> Code {
        match self.family {
            Family::Global(_) => call!(self.functions.disable, kind),
            Family::Own(subscriber) => {
                call!(self.functions.disable_v2, subscriber, kind, ptr::null_mut())
            }
        }
    }

    /// Records calls of one driver function, or no longer.
    pub(super) fn driver_function(&self, cbid: u32, on: bool) -> Code {
        let on = u8::from(on);
        by_family!(self, enable_driver_api, enable_driver_api_v2, cbid, on)
    }

    /// Records calls of one runtime function, or no longer.
    pub(super) fn runtime_function(&self, cbid: u32, on: bool) -> Code {
        let on = u8::from(on);
        by_family!(self, enable_runtime_api, enable_runtime_api_v2, cbid, on)
    }

    /// From here on what this thread calls belongs to `id`.
    #[inline]
    pub(super) fn push(&self, kind: u32, id: u64) -> Code {
        by_family!(self, push, push_v2, kind, id)
    }

    /// Takes the last id of this thread away, and gives it.
    #[inline]
    pub(super) fn pop(&self, kind: u32) -> Result<u64, Code> {
        let mut last = 0;
        match by_family!(self, pop, pop_v2, kind, &raw mut last) {
            Code::SUCCESS => Ok(last),
            code => Err(code),
        }
    }

    /// Blocks until CUPTI has given back what it has. Never from a callback, never with a lock held.
    pub(super) fn flush(&self, flag: u32) -> Code {
        call!(self.functions.flush_all, flag)
    }

    /// The record after `record`, or the first for NULL.
    ///
    /// # Safety
    /// `buffer` was given back by CUPTI with `valid` bytes, nobody else touches it, and `record` is in it or NULL.
    pub(super) unsafe fn next_record(
        &self,
        buffer: *mut u8,
        valid: usize,
        record: *mut u8,
    ) -> Result<*mut u8, Code> {
        let mut record = record;
        match by_family!(
            self,
            get_next_record,
            get_next_record_v2,
            buffer,
            valid,
            &raw mut record
        ) {
            Code::SUCCESS => Ok(record),
            code => Err(code),
        }
    }

    /// How many records CUPTI lost since this was asked last.
    pub(super) fn dropped(&self) -> u64 {
        let mut dropped: usize = 0;
        let code = by_family!(
            self,
            get_dropped,
            get_dropped_v2,
            ptr::null_mut(),
            0,
            &raw mut dropped
        );
        if code.is_success() {
            u64::try_from(dropped).unwrap_or(u64::MAX)
        } else {
            0
        }
    }

    /// What the clock shows that times of records are on.
    pub(super) fn timestamp_ns(&self) -> Option<u64> {
        let mut timestamp = 0;
        let code = by_family!(self, get_timestamp, get_timestamp_v2, &raw mut timestamp);
        (code.is_success() && timestamp != 0).then_some(timestamp)
    }
}
