//! A user of CUPTI: subscribed in one of the two families, with the records that came.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use cupti_sys::constants::{CBIDS_OF_LAUNCHES, EXTERNAL_CUSTOM2, KIND_DRIVER};
use cupti_sys::functions::{OLD_SUBSCRIBER_NAME_BYTES, Subscriber, SubscriberParams};
use cupti_sys::record::{KIND, kernel};
use cupti_sys::{Code, Functions, Library, Search};
use serde_json::json;

use super::buffers;
use crate::options::ProbeRequest;
use crate::outcome::{Facts, Outcome};

/// Which functions of CUPTI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Those of the process.
    Global,
    /// A subscriber's own, with or without others beside it.
    Own { shared: bool },
}

/// CUPTI, loaded.
#[derive(Clone, Debug)]
pub(super) struct Cupti {
    pub(super) functions: Functions,
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
    pub(super) fn load(request: &ProbeRequest) -> Result<Self, Outcome> {
        let search = Search {
            explicit: request.cupti.clone(),
            cuda_home: std::env::var_os("CUDA_HOME").map(Into::into),
        };
        let Library {
            path, functions, ..
        } = cupti_sys::load(&search).map_err(|error| Outcome::not_here(error.to_string()))?;
        let mut version = 0;
        succeeded(
            "cuptiGetVersion",
            call!(functions.get_version, &raw mut version),
        )?;
        Ok(Self {
            functions,
            version,
            path: path.display().to_string(),
        })
    }

    /// What it is, as facts.
    pub(super) fn facts(&self) -> Facts {
        let mut facts = Facts::new();
        facts.insert("cupti_version".to_owned(), json!(self.version));
        facts.insert("cupti".to_owned(), json!(self.path));
        facts
    }

    /// Subscribes; on failure also who holds CUPTI, if it says so.
    pub(super) fn subscribe(&self, family: Family) -> Result<Tool, (Code, String)> {
        let mut subscriber: Subscriber = null_mut();
        let mut holder = [0_u8; OLD_SUBSCRIBER_NAME_BYTES + 1];
        let code = match family {
            Family::Global => call!(
                self.functions.subscribe,
                &raw mut subscriber,
                no_callback,
                null_mut()
            ),
            Family::Own { shared } => {
                let mut params = SubscriberParams {
                    struct_size: size_of::<SubscriberParams>(),
                    subscriber_name: c"gpu-check".as_ptr(),
                    old_subscriber_name: holder.as_mut_ptr().cast(),
                    old_subscriber_size: OLD_SUBSCRIBER_NAME_BYTES,
                    allow_multiple_subscribers: u8::from(shared),
                    padding: [0; 7],
                };
                call!(
                    self.functions.subscribe_v2,
                    &raw mut subscriber,
                    no_callback,
                    null_mut(),
                    &raw mut params
                )
            }
        };
        if code.is_success() {
            return Ok(Tool {
                functions: self.functions,
                family,
                subscriber,
            });
        }
        let holder = CStr::from_bytes_until_nul(&holder).unwrap_or_default();
        Err((code, holder.to_string_lossy().into_owned()))
    }

    /// Nanoseconds of CUPTI's clock, by the functions of the process.
    pub(super) fn timestamp(&self) -> Result<u64, Outcome> {
        let mut now = 0;
        succeeded(
            "cuptiGetTimestamp",
            call!(self.functions.get_timestamp, &raw mut now),
        )?;
        Ok(now)
    }
}

/// No events are asked for, so it is never called.
extern "C" fn no_callback(_data: *mut c_void, _domain: c_int, _id: u32, _info: *const c_void) {}

/// A failure with the name of the call.
pub(super) fn succeeded(what: &str, code: Code) -> Result<(), Outcome> {
    if code.is_success() {
        Ok(())
    } else {
        Err(Outcome::failed(format!("{what}: {code}")))
    }
}

/// One subscriber.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    functions: Functions,
    family: Family,
    subscriber: Subscriber,
}

/// A call of the tool's family.
macro_rules! by_family {
    ($tool:ident, $global:ident, $own:ident $(, $argument:expr)*) => {
        match $tool.family {
            Family::Global => call!($tool.functions.$global $(, $argument)*),
            Family::Own { .. } => call!($tool.functions.$own, $tool.subscriber $(, $argument)*),
        }
    };
}

impl Tool {
    pub(super) const fn family_name(&self) -> &'static str {
        match self.family {
            Family::Global => "global",
            Family::Own { .. } => "own",
        }
    }

    /// Turns kinds on; with `launches`, records of the four functions that launch, or of all where the release cannot
    /// choose. Whether it could.
    pub(super) fn turn_on(&self, kinds: &[u32], launches: bool) -> Result<bool, Outcome> {
        let registered = match self.family {
            Family::Global => call!(
                self.functions.register_callbacks,
                buffers::request,
                buffers::complete
            ),
            Family::Own { .. } => call!(
                self.functions.register_callbacks_v2,
                self.subscriber,
                buffers::request_own,
                buffers::complete_own
            ),
        };
        succeeded("registering buffers", registered)?;
        for kind in kinds {
            self.enable(*kind)?;
        }
        if !launches {
            return Ok(true);
        }
        for cbid in CBIDS_OF_LAUNCHES {
            if !by_family!(self, enable_driver_api, enable_driver_api_v2, cbid, 1).is_success() {
                self.enable(KIND_DRIVER)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn enable(&self, kind: u32) -> Result<(), Outcome> {
        let code = match self.family {
            Family::Global => call!(self.functions.enable, kind),
            Family::Own { .. } => {
                call!(self.functions.enable_v2, self.subscriber, kind, null_mut())
            }
        };
        succeeded(&format!("enabling kind {kind}"), code)
    }

    /// Turns kinds off.
    pub(super) fn turn_off(&self, kinds: &[u32]) {
        for kind in kinds {
            let _ = match self.family {
                Family::Global => call!(self.functions.disable, *kind),
                Family::Own { .. } => {
                    call!(
                        self.functions.disable_v2,
                        self.subscriber,
                        *kind,
                        null_mut()
                    )
                }
            };
        }
    }

    /// What this thread calls from here on belongs to `id`.
    pub(super) fn push(&self, id: u64) -> Result<(), Outcome> {
        succeeded(
            "push",
            by_family!(self, push, push_v2, EXTERNAL_CUSTOM2, id),
        )
    }

    /// Takes the last id away.
    pub(super) fn pop(&self) -> Result<u64, Outcome> {
        let mut last = 0;
        succeeded(
            "pop",
            by_family!(self, pop, pop_v2, EXTERNAL_CUSTOM2, &raw mut last),
        )?;
        Ok(last)
    }

    /// Records that CUPTI says it dropped.
    pub(super) fn dropped(&self) -> usize {
        let mut dropped = 0;
        let _ = by_family!(
            self,
            get_dropped,
            get_dropped_v2,
            null_mut(),
            0,
            &raw mut dropped
        );
        dropped
    }

    /// Ends the subscription.
    pub(super) fn unsubscribe(&self) -> Code {
        call!(self.functions.unsubscribe, self.subscriber)
    }

    /// All records, when `enough` of them are there or `patience` is over.
    pub(super) fn records(
        &self,
        patience: Duration,
        enough: impl Fn(&[Record]) -> bool,
    ) -> Result<Vec<Record>, Outcome> {
        let until = Instant::now() + patience;
        let mut records = Vec::new();
        loop {
            succeeded("flush", call!(self.functions.flush_all, 0))?;
            for buffer in buffers::take() {
                self.read(&buffer, &mut records)?;
            }
            if enough(&records) || Instant::now() >= until {
                return Ok(records);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How many records, and bytes of them, there are by now; the records are not kept.
    pub(super) fn count(&self) -> Result<(u64, u64), Outcome> {
        succeeded("flush", call!(self.functions.flush_all, 0))?;
        let (mut count, mut bytes) = (0, 0);
        for buffer in buffers::take() {
            bytes += buffer.valid as u64;
            let mut at = null_mut();
            while self.step(&buffer, &mut at)? {
                count += 1;
            }
        }
        Ok((count, bytes))
    }

    /// To the next record; false behind the last.
    fn step(&self, buffer: &buffers::Buffer, at: &mut *mut u8) -> Result<bool, Outcome> {
        let next: *mut *mut u8 = at;
        let code = by_family!(
            self,
            get_next_record,
            get_next_record_v2,
            buffer.address,
            buffer.valid,
            next
        );
        match code {
            Code::SUCCESS => Ok(true),
            Code::MAX_LIMIT_REACHED => Ok(false),
            code => Err(Outcome::failed(format!(
                "cuptiActivityGetNextRecord: {code}"
            ))),
        }
    }

    fn read(&self, buffer: &buffers::Buffer, records: &mut Vec<Record>) -> Result<(), Outcome> {
        let mut starts = Vec::new();
        let mut at = null_mut();
        while self.step(buffer, &mut at)? {
            starts.push(at.addr() - buffer.address.addr());
        }
        // SAFETY: CUPTI wrote `valid` bytes there and gave the buffer back.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.address, buffer.valid) };
        for (place, start) in starts.iter().enumerate() {
            let end = starts.get(place + 1).copied().unwrap_or(buffer.valid);
            if let Some(bytes) = bytes.get(*start..end) {
                records.push(Record(bytes.to_vec()));
            }
        }
        Ok(())
    }
}

/// The bytes of a record, up to the next.
#[derive(Clone, Debug)]
pub(super) struct Record(pub(super) Vec<u8>);

impl Record {
    pub(super) fn kind(&self) -> u32 {
        KIND.of(&self.0).unwrap_or(0)
    }

    /// Of a kernel: its name.
    pub(super) fn kernel_name(&self) -> String {
        let Some(address) = kernel::NAME.of(&self.0).filter(|address| *address != 0) else {
            return String::new();
        };
        let Ok(address) = usize::try_from(address) else {
            return String::new();
        };
        // SAFETY: CUPTI's string of a kernel record; it lives as long as the process does.
        let name = unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance(address)) };
        name.to_string_lossy().into_owned()
    }
}

/// Those of one kind.
pub(super) fn of_kind(records: &[Record], kind: u32) -> Vec<&Record> {
    records
        .iter()
        .filter(|record| record.kind() == kind)
        .collect()
}
