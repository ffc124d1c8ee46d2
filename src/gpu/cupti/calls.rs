//! The calls of CUPTI: one method each, over CUPTI's two families of functions.
//!
//! All releases have the global family. The subscriber family, from CUDA 13.3 on, serves processes in which several
//! tools use CUPTI. One process cannot use both.

use std::ffi::{c_int, c_void};
use std::ptr;

use cupti_sys::Code;
use cupti_sys::load::{Functions, Subscriber, SubscriberParams};

use super::buffers;
use crate::host::process;

#[derive(Clone, Copy, Debug)]
enum Family {
    /// The global functions; the subscription only keeps other tools out.
    Global(Subscriber),
    Own(Subscriber),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Driver,
    Runtime,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    functions: Functions,
    family: Family,
}

// SAFETY: CUPTI allows calls on any thread with the same subscriber; the handle is only passed back to CUPTI.
unsafe impl Send for Calls {}
// SAFETY: as above.
unsafe impl Sync for Calls {}

/// Calls a function, unless the release lacks it or this is a forked child.
macro_rules! call {
    ($function:expr $(, $argument:expr)*) => {
        match $function {
            Some(function) if !process::is_forked() => {
                // SAFETY: `cupti_sys` found the function by name in CUPTI, which stays loaded, and there is a driver.
                // Pointer arguments are NULL or point to variables of the caller.
                Code(unsafe { function($($argument),*) })
            }
            Some(_) => Code::DISABLED,
            None => Code::API_NOT_IMPLEMENTED,
        }
    };
}

macro_rules! by_family {
    ($self:ident, $global:ident, $own:ident $(, $argument:expr)* $(; own: $of_own:expr)?) => {
        match $self.family {
            Family::Global(_) => call!($self.functions.$global $(, $argument)*),
            Family::Own(subscriber) => call!($self.functions.$own, subscriber $(, $argument)* $(, $of_own)?),
        }
    };
}

/// The callback that a subscription requires. CUPTI never calls it, because no callbacks are enabled.
extern "C" fn no_callback(_data: *mut c_void, _domain: c_int, _id: u32, _info: *const c_void) {}

pub(super) fn version(functions: &Functions) -> Result<u32, Code> {
    let mut version = 0;
    match call!(functions.get_version, &raw mut version) {
        Code::SUCCESS => Ok(version),
        code => Err(code),
    }
}

/// Whether a tool is tracing with CUPTI now; false if the release lacks the function.
pub(super) fn is_session_running(functions: &Functions) -> bool {
    let mut running = 0;
    call!(functions.is_tracing_session_running, &raw mut running).is_success() && running != 0
}

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
    /// Subscribes as one of several tools. An error names the tool that holds CUPTI, if CUPTI reports it.
    pub(super) fn subscribe_own(functions: Functions) -> Result<Self, (Code, String)> {
        let mut subscriber: Subscriber = ptr::null_mut();
        let mut holder = [0_u8; cupti_sys::load::OLD_SUBSCRIBER_NAME_BYTES + 64];
        let mut params = SubscriberParams {
            struct_size: size_of::<SubscriberParams>(),
            subscriber_name: c"nccl-otf2".as_ptr(),
            old_subscriber_name: holder.as_mut_ptr().cast(),
            old_subscriber_size: holder.len() - 1,
            allow_multiple_subscribers: 1,
            padding: [0; 7],
        };
        let code = call!(functions.subscribe_v2, &raw mut subscriber, no_callback, ptr::null_mut(), &raw mut params);
        if code.is_success() {
            return Ok(Self { functions, family: Family::Own(subscriber) });
        }
        let name: Vec<u8> = holder.into_iter().take_while(|byte| *byte != 0).collect();
        Err((code, String::from_utf8_lossy(&name).into_owned()))
    }

    pub(super) fn subscribe_global(functions: Functions) -> Result<Self, Code> {
        let mut subscriber: Subscriber = ptr::null_mut();
        match call!(functions.subscribe, &raw mut subscriber, no_callback, ptr::null_mut()) {
            Code::SUCCESS => Ok(Self { functions, family: Family::Global(subscriber) }),
            code => Err(code),
        }
    }

    /// Whether other tools in the process can use CUPTI at the same time.
    pub(super) const fn is_shared(&self) -> bool {
        matches!(self.family, Family::Own(_))
    }

    pub(super) fn unsubscribe(&self) -> Code {
        let (Family::Global(subscriber) | Family::Own(subscriber)) = self.family;
        call!(self.functions.unsubscribe, subscriber)
    }

    pub(super) fn register_buffers(&self) -> Code {
        match self.family {
            Family::Global(_) => call!(self.functions.register_callbacks, buffers::requested, buffers::completed),
            Family::Own(subscriber) => {
                call!(self.functions.register_callbacks_v2, subscriber, buffers::requested_own, buffers::completed_own)
            }
        }
    }

    pub(super) fn set_attribute_u8(&self, attribute: u32, mut value: u8) -> Code {
        let mut size = size_of::<u8>();
        let value = (&raw mut value).cast();
        by_family!(self, set_attribute, set_attribute_v2, attribute, &raw mut size, value)
    }

    pub(super) fn enable(&self, kind: u32) -> Code {
        by_family!(self, enable, enable_v2, kind; own: ptr::null_mut())
    }

    pub(super) fn disable(&self, kind: u32) -> Code {
        by_family!(self, disable, disable_v2, kind; own: ptr::null_mut())
    }

    pub(super) fn function(&self, api: Api, cbid: u32, on: bool) -> Code {
        let on = u8::from(on);
        match api {
            Api::Driver => by_family!(self, enable_driver_api, enable_driver_api_v2, cbid, on),
            Api::Runtime => by_family!(self, enable_runtime_api, enable_runtime_api_v2, cbid, on),
        }
    }

    /// Pushes an id, with which CUPTI tags this thread's following calls.
    #[inline]
    pub(super) fn push(&self, kind: u32, id: u64) -> Code {
        by_family!(self, push, push_v2, kind, id)
    }

    #[inline]
    pub(super) fn pop(&self, kind: u32) -> Result<u64, Code> {
        let mut last = 0;
        match by_family!(self, pop, pop_v2, kind, &raw mut last) {
            Code::SUCCESS => Ok(last),
            code => Err(code),
        }
    }

    /// Blocks until CUPTI has returned its buffers. Must not be called from a callback or with a lock held.
    pub(super) fn flush(&self, flag: u32) -> Code {
        call!(self.functions.flush_all, flag)
    }

    /// The record after `record`, or the first record if `record` is NULL.
    ///
    /// # Safety
    /// CUPTI returned `buffer` with `valid` bytes, nothing else accesses it, and `record` points into it or is NULL.
    pub(super) unsafe fn next_record(&self, buffer: *mut u8, valid: usize, record: *mut u8) -> Result<*mut u8, Code> {
        let mut record = record;
        match by_family!(self, get_next_record, get_next_record_v2, buffer, valid, &raw mut record) {
            Code::SUCCESS => Ok(record),
            code => Err(code),
        }
    }

    /// The number of records that CUPTI dropped since the last call.
    pub(super) fn dropped(&self) -> Result<u64, Code> {
        let mut dropped: usize = 0;
        let code = by_family!(self, get_dropped, get_dropped_v2, ptr::null_mut(), 0, &raw mut dropped);
        if code.is_success() { Ok(u64::try_from(dropped).unwrap_or(u64::MAX)) } else { Err(code) }
    }

    /// The current time on the clock of the records.
    pub(super) fn timestamp_ns(&self) -> Option<u64> {
        let mut timestamp = 0;
        let code = by_family!(self, get_timestamp, get_timestamp_v2, &raw mut timestamp);
        (code.is_success() && timestamp != 0).then_some(timestamp)
    }
}
