//! A user of CUPTI: subscribed in one of the two families, with the records that came.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use cupti_sys::constants::{
    CBIDS_END, CBIDS_OF_LAUNCHES, EXTERNAL_CUSTOM2, KIND_CONCURRENT_KERNEL, KIND_DRIVER, VERSION_SINGLE_FUNCTIONS,
};
use cupti_sys::functions::{OLD_SUBSCRIBER_NAME_BYTES, Subscriber, SubscriberParams};
use cupti_sys::record::KIND;
use cupti_sys::{Code, Functions, Library, Search};
use serde_json::{Value, json};

use super::buffers;
use crate::options::Options;
use crate::outcome::Outcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Global,
    /// A subscriber's own, and whether others may be beside it.
    Own(bool),
}

#[derive(Clone, Debug)]
pub(super) struct Cupti {
    functions: Functions,
    pub(super) version: u32,
    path: String,
}

/// One call; a function that the release lacks gives a code of its own.
macro_rules! call {
    ($function:expr $(, $argument:expr)*) => {
        match $function {
            None => Code::API_NOT_IMPLEMENTED,
            // SAFETY: CUPTI's function of this type, which stays loaded, and there is a driver; pointers among the
            // arguments are NULL where that may be, or to variables of the caller's.
            Some(function) => Code(unsafe { function($($argument),*) }),
        }
    };
}

impl Cupti {
    /// Loads it; the driver must be loaded.
    pub(super) fn load(options: &Options) -> Result<Self, Outcome> {
        let search =
            Search { explicit: options.cupti.clone(), cuda_home: std::env::var_os("CUDA_HOME").map(Into::into) };
        let Library { path, functions, .. } =
            cupti_sys::load(&search).map_err(|error| Outcome::not_here(error.to_string()))?;
        let mut version = 0;
        succeeded("cuptiGetVersion", call!(functions.get_version, &raw mut version))?;
        Ok(Self { functions, version, path: path.display().to_string() })
    }

    pub(super) fn facts(&self) -> Value {
        json!({ "cupti_version": self.version, "cupti": self.path })
    }

    pub(super) fn subscribe(&self, family: Family) -> Result<Tool, (Code, String)> {
        let mut subscriber: Subscriber = null_mut();
        let mut holder = [0_u8; OLD_SUBSCRIBER_NAME_BYTES + 1];
        let (own, none) = (&raw mut subscriber, null_mut());
        let code = match family {
            Family::Global => call!(self.functions.subscribe, own, no_callback, none),
            Family::Own(shared) => {
                let mut params = SubscriberParams {
                    struct_size: size_of::<SubscriberParams>(),
                    subscriber_name: c"gpu-check".as_ptr(),
                    old_subscriber_name: holder.as_mut_ptr().cast(),
                    old_subscriber_size: OLD_SUBSCRIBER_NAME_BYTES,
                    allow_multiple_subscribers: u8::from(shared),
                    padding: [0; 7],
                };
                call!(self.functions.subscribe_v2, own, no_callback, none, &raw mut params)
            }
        };
        if code.is_success() {
            return Ok(Tool { functions: self.functions, version: self.version, family, subscriber });
        }
        let holder = CStr::from_bytes_until_nul(&holder).unwrap_or_default();
        Err((code, holder.to_string_lossy().into_owned()))
    }
}

/// No events are asked for, so it is never called.
extern "C" fn no_callback(_data: *mut c_void, _domain: c_int, _id: u32, _info: *const c_void) {}

fn succeeded(what: &str, code: Code) -> Result<(), Outcome> {
    if code.is_success() { Ok(()) } else { Err(Outcome::failed(format!("{what}: {code}"))) }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    functions: Functions,
    version: u32,
    family: Family,
    subscriber: Subscriber,
}

/// A call of the tool's family: the function of the process, that of a subscriber, arguments, what only the latter has.
macro_rules! by_family {
    ($tool:ident, $global:ident($($argument:expr),*), $own:ident($($own_argument:expr),*)) => {
        match $tool.family {
            Family::Global => call!($tool.functions.$global $(, $argument)*),
            Family::Own(_) => call!($tool.functions.$own, $tool.subscriber $(, $own_argument)*),
        }
    };
}

impl Tool {
    /// Turns kinds on, and records of the four functions that launch, or of all where the release cannot choose.
    /// Whether it could.
    pub(super) fn turn_on(&self, kinds: &[u32]) -> Result<bool, Outcome> {
        use buffers::{complete, complete_own, request, request_own};
        let code =
            by_family!(self, register_callbacks(request, complete), register_callbacks_v2(request_own, complete_own));
        succeeded("registering buffers", code)?;
        for kind in kinds {
            self.enable(*kind)?;
        }
        if self.version >= VERSION_SINGLE_FUNCTIONS {
            return Ok(CBIDS_OF_LAUNCHES.iter().all(|cbid| self.choose(*cbid, 1)));
        }
        self.enable(KIND_DRIVER)?;
        let others = (1..CBIDS_END).filter(|cbid| !CBIDS_OF_LAUNCHES.contains(cbid));
        Ok(others.take_while(|cbid| self.choose(*cbid, 0)).count() > 0)
    }

    fn choose(&self, cbid: u32, on: u8) -> bool {
        by_family!(self, enable_driver_api(cbid, on), enable_driver_api_v2(cbid, on)).is_success()
    }

    fn enable(&self, kind: u32) -> Result<(), Outcome> {
        let code = by_family!(self, enable(kind), enable_v2(kind, null_mut()));
        succeeded(&format!("enabling kind {kind}"), code)
    }

    /// What this thread calls from here on belongs to `id`.
    pub(super) fn push(&self, id: u64) -> Result<(), Outcome> {
        let kind = EXTERNAL_CUSTOM2;
        succeeded("push", by_family!(self, push(kind, id), push_v2(kind, id)))
    }

    pub(super) fn pop(&self) -> Result<u64, Outcome> {
        let (kind, mut last) = (EXTERNAL_CUSTOM2, 0);
        let at = &raw mut last;
        succeeded("pop", by_family!(self, pop(kind, at), pop_v2(kind, at)))?;
        Ok(last)
    }

    pub(super) fn dropped(&self) -> usize {
        let (none, mut dropped) = (null_mut(), 0);
        let at = &raw mut dropped;
        let _ = by_family!(self, get_dropped(none, 0, at), get_dropped_v2(none, 0, at));
        dropped
    }

    pub(super) fn unsubscribe(&self) -> Code {
        call!(self.functions.unsubscribe, self.subscriber)
    }

    /// All records, once there are so many kernels among them or `patience` is over.
    pub(super) fn records(&self, kernels: usize, patience: Duration) -> Result<Vec<Record>, Outcome> {
        let until = Instant::now() + patience;
        let mut records = Vec::new();
        loop {
            self.read(&mut records)?;
            if records_of_kind(&records, KIND_CONCURRENT_KERNEL).len() >= kernels || Instant::now() >= until {
                return Ok(records);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn read(&self, records: &mut Vec<Record>) -> Result<(), Outcome> {
        succeeded("flush", call!(self.functions.flush_all, 0))?;
        for bytes in buffers::take() {
            let (start, valid) = (bytes.as_ptr().cast_mut(), bytes.len());
            let (mut at, mut before) = (null_mut(), None);
            loop {
                let next: *mut *mut u8 = &raw mut at;
                let code =
                    by_family!(self, get_next_record(start, valid, next), get_next_record_v2(start, valid, next));
                let end = if code.is_success() { at.addr() - start.addr() } else { valid };
                records.extend(before.and_then(|before| bytes.get(before..end)));
                before = Some(end);
                if code == Code::MAX_LIMIT_REACHED {
                    break;
                }
                succeeded("cuptiActivityGetNextRecord", code)?;
            }
        }
        Ok(())
    }
}

pub(super) type Record = &'static [u8];

pub(super) fn records_of_kind(records: &[Record], kind: u32) -> Vec<Record> {
    records.iter().copied().filter(|record| KIND.read(record) == Some(kind)).collect()
}
