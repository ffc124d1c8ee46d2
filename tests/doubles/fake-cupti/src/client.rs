//! Who gets records: the process as a whole (V1), or a subscriber (V2).

use crate::buffer::{Buffer, record_len};
use crate::counters::{
    API_RECORDS, BUFFERS_REQUESTED, DROPPED, EXTERNAL_RECORDS, POPS, POPS_OF_NOTHING, PUSHES,
};
use crate::delivery;
use crate::guard::{in_callback, misuse};
use crate::knobs::knobs;
use crate::level::{Level, kind};
use crate::records;
use crate::result::{Code, INVALID_PARAMETER, QUEUE_EMPTY};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

/// `CUpti_BufferCallbackRequestInfo`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RequestInfo {
    len: usize,
}

/// `CUpti_BufferCallbackCompleteInfo`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CompleteInfo {
    len: usize,
    thread: u64,
    layouts: usize,
    layout_count: usize,
}

pub(crate) type RequestV1 = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub(crate) type CompleteV1 = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
pub(crate) type RequestV2 =
    unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize, *mut RequestInfo);
pub(crate) type CompleteV2 = unsafe extern "C" fn(*mut u8, usize, usize, *mut CompleteInfo);

/// A tool's buffer callbacks.
#[derive(Clone, Copy)]
pub(crate) enum Callbacks {
    V1(RequestV1, CompleteV1),
    V2(RequestV2, CompleteV2),
}

/// Whose records a buffer has: a thread's (0: everybody's), and which.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    thread: i32,
    /// what ran on the GPU, where that is kept apart
    work: bool,
}

struct State {
    callbacks: Option<Callbacks>,
    kinds: BTreeSet<u32>,
    driver: BTreeSet<u32>,
    runtime: BTreeSet<u32>,
    current: BTreeMap<Key, Buffer>,
    dropped: usize,
    per_thread: bool,
    promised_clean: bool,
}

/// Who gets records.
pub(crate) struct Client {
    pub(crate) name: String,
    state: Mutex<State>,
    /// by thread and kind
    stacks: Mutex<HashMap<(i32, u32), Vec<u64>>>,
}

/// An API call of the calling thread.
pub(crate) struct ApiCall {
    pub(crate) kind: u32,
    pub(crate) cbid: u32,
    pub(crate) correlation: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Client {
    pub(crate) fn new(name: String) -> Arc<Client> {
        Arc::new(Client {
            name,
            state: Mutex::new(State {
                callbacks: None,
                kinds: BTreeSet::new(),
                driver: BTreeSet::new(),
                runtime: BTreeSet::new(),
                current: BTreeMap::new(),
                dropped: 0,
                per_thread: knobs().level >= Level::PER_THREAD_DEFAULT,
                promised_clean: false,
            }),
            stacks: Mutex::default(),
        })
    }

    pub(crate) fn register(&self, callbacks: Callbacks) {
        self.state.lock().callbacks = Some(callbacks);
    }

    pub(crate) fn callbacks(&self) -> Option<Callbacks> {
        self.state.lock().callbacks
    }

    pub(crate) fn switch_kind(&self, kind: u32, on: bool) {
        let kinds = &mut self.state.lock().kinds;
        if on {
            kinds.insert(kind);
        } else {
            kinds.remove(&kind);
        }
    }

    pub(crate) fn kinds(&self) -> Vec<u32> {
        self.state.lock().kinds.iter().copied().collect()
    }

    pub(crate) fn wants(&self, kind: u32) -> bool {
        self.state.lock().kinds.contains(&kind)
    }

    /// Switches the records of one function.
    pub(crate) fn switch_api(&self, api: u32, cbid: u32, on: bool) {
        let mut state = self.state.lock();
        let set = if api == kind::DRIVER {
            &mut state.driver
        } else {
            &mut state.runtime
        };
        if on {
            set.insert(cbid);
        } else {
            set.remove(&cbid);
        }
    }

    pub(crate) fn set_per_thread(&self, on: bool) {
        self.state.lock().per_thread = on;
    }

    pub(crate) fn per_thread(&self) -> bool {
        self.state.lock().per_thread
    }

    pub(crate) fn promise_clean(&self, on: bool) {
        self.state.lock().promised_clean = on;
    }

    /// How many records were dropped since this was last asked.
    pub(crate) fn take_dropped(&self) -> usize {
        std::mem::take(&mut self.state.lock().dropped)
    }

    pub(crate) fn drop_one(&self) {
        self.state.lock().dropped += 1;
        DROPPED.add(1);
    }

    pub(crate) fn push_id(&self, kind: u32, id: u64) -> Result<(), Code> {
        // 0 is no kind, 6 the number of kinds.
        if !(1..6).contains(&kind) {
            return Err(INVALID_PARAMETER);
        }
        PUSHES.add(1);
        self.stacks
            .lock()
            .entry((this_thread(), kind))
            .or_default()
            .push(id);
        Ok(())
    }

    pub(crate) fn pop_id(&self, kind: u32) -> Result<u64, Code> {
        if !(1..6).contains(&kind) {
            return Err(INVALID_PARAMETER);
        }
        let mut stacks = self.stacks.lock();
        let popped = stacks.get_mut(&(this_thread(), kind)).and_then(Vec::pop);
        let counter = if popped.is_some() {
            &POPS
        } else {
            &POPS_OF_NOTHING
        };
        counter.add(1);
        popped.ok_or(QUEUE_EMPTY)
    }

    /// The top of each stack of the calling thread.
    fn tops(&self) -> Vec<(u32, u64)> {
        let stacks = self.stacks.lock();
        let thread = this_thread();
        let top = |kind: u32| Some((kind, *stacks.get(&(thread, kind))?.last()?));
        (1..6).filter_map(top).collect()
    }

    /// Writes down an API call, if it is wanted.
    pub(crate) fn note_call(self: &Arc<Self>, call: &ApiCall) {
        let (wanted, external, key) = {
            let state = self.state.lock();
            let set = if call.kind == kind::DRIVER {
                &state.driver
            } else {
                &state.runtime
            };
            (
                state.kinds.contains(&call.kind) || set.contains(&call.cbid),
                state.kinds.contains(&kind::EXTERNAL_CORRELATION),
                Key {
                    thread: if state.per_thread { this_thread() } else { 0 },
                    work: false,
                },
            )
        };
        if !wanted {
            // The kernel's record needs a buffer, and that is asked for here too.
            if self.wants(kind::CONCURRENT_KERNEL) {
                self.provide(key);
            }
            return;
        }
        if external && let Some(len) = record_len(kind::EXTERNAL_CORRELATION) {
            for (external_kind, id) in self.tops() {
                let record = records::external(len, external_kind, id, call.correlation);
                self.write(key, &record);
                EXTERNAL_RECORDS.add(1);
            }
        }
        let record = records::api(
            record_len(call.kind).unwrap_or(40),
            &records::Api {
                kind: call.kind,
                cbid: call.cbid,
                start: call.start,
                end: call.end,
                thread: u32::try_from(this_thread()).unwrap_or(0),
                correlation: call.correlation,
            },
        );
        self.write(key, &record);
        API_RECORDS.add(1);
    }

    /// Writes down what ran, launched by this thread.
    pub(crate) fn note_work(self: &Arc<Self>, thread: i32, record: &[u8]) {
        let per_thread = self.state.lock().per_thread;
        let key = Key {
            thread: if per_thread { thread } else { 0 },
            work: knobs().split,
        };
        self.write(key, record);
    }

    /// Takes the buffers away, to be completed: those of `busy` threads are not complete. All of them if `forced`, also
    /// the empty ones.
    pub(crate) fn take_buffers(&self, forced: bool, busy: &BTreeSet<i32>) -> Vec<Buffer> {
        let mut state = self.state.lock();
        let complete =
            |key: &Key| !busy.contains(&key.thread) && (key.thread != 0 || busy.is_empty());
        let keys: Vec<Key> = state
            .current
            .iter()
            .filter(|(key, buffer)| forced || (buffer.valid() > 0 && complete(key)))
            .map(|(key, _)| *key)
            .collect();
        keys.iter()
            .filter_map(|key| state.current.remove(key))
            .collect()
    }

    /// Sees to it that there is a buffer; false if none can be had.
    fn provide(self: &Arc<Self>, key: Key) -> bool {
        if self.state.lock().current.contains_key(&key) {
            return true;
        }
        let Some(buffer) = self.request(key) else {
            return false;
        };
        let before = self.state.lock().current.insert(key, buffer);
        if let Some(before) = before {
            // Two threads asked at the same time.
            delivery::complete(self, before);
        }
        true
    }

    fn write(self: &Arc<Self>, key: Key, record: &[u8]) {
        let mut fresh = false;
        loop {
            let full = {
                let mut state = self.state.lock();
                let pushed = state
                    .current
                    .get_mut(&key)
                    .is_some_and(|buffer| buffer.push(record));
                if pushed {
                    return;
                }
                state.current.remove(&key)
            };
            if let Some(full) = full {
                let len = full.len();
                delivery::complete(self, full);
                if fresh && len < record.len() {
                    misuse(&format!(
                        "a buffer of {len} bytes for a record of {}",
                        record.len()
                    ));
                    return self.drop_one();
                }
            }
            if !self.provide(key) {
                return self.drop_one();
            }
            fresh = true;
        }
    }

    /// Asks the tool for a buffer.
    fn request(&self, key: Key) -> Option<Buffer> {
        let callbacks = self.callbacks()?;
        let (mut start, mut len, mut max_records) = (null_mut::<u8>(), 0_usize, 0_usize);
        let mut info = RequestInfo {
            len: size_of::<RequestInfo>(),
        };
        in_callback(|| match callbacks {
            // SAFETY: the tool's function, of this type by the call that registered it, and places for its three answers.
            Callbacks::V1(request, _) => unsafe {
                request(&raw mut start, &raw mut len, &raw mut max_records);
            },
            // SAFETY: as above.
            Callbacks::V2(request, _) => unsafe {
                request(
                    &raw mut start,
                    &raw mut len,
                    &raw mut max_records,
                    &raw mut info,
                );
            },
        });
        if start.is_null() || len == 0 {
            if knobs().level < Level::NULL_BUFFER {
                misuse("NULL for a buffer: this release may crash of that");
            }
            return None;
        }
        if !start.addr().is_multiple_of(8) {
            misuse(&format!("a buffer at {start:?}, which is no multiple of 8"));
        }
        BUFFERS_REQUESTED.add(1);
        let thread = if key.thread == 0 {
            this_thread()
        } else {
            key.thread
        };
        // SAFETY: what the tool's request callback gave is CUPTI's until it is completed.
        let buffer = unsafe { Buffer::new(start, len, max_records, thread) };
        if self.state.lock().promised_clean && !buffer.looks_clean() {
            misuse("a buffer that is not zeroed, against attribute 5");
        }
        Some(buffer)
    }

    /// Gives a buffer back to whoever is registered now.
    pub(crate) fn give_back(&self, start: *mut u8, len: usize, valid: usize, thread: i32) {
        let Some(callbacks) = self.callbacks() else {
            return;
        };
        let mut info = CompleteInfo {
            len: size_of::<CompleteInfo>(),
            thread: u64::try_from(thread).unwrap_or(0),
            layouts: 0,
            layout_count: 0,
        };
        in_callback(|| match callbacks {
            // SAFETY: the tool's function, of this type by the call that registered it; the buffer is the tool's again.
            Callbacks::V1(_, complete) => unsafe { complete(null_mut(), 0, start, len, valid) },
            // SAFETY: as above.
            Callbacks::V2(_, complete) => unsafe { complete(start, len, valid, &raw mut info) },
        });
    }
}

/// The calling thread's number.
pub(crate) fn this_thread() -> i32 {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::gettid() }
}
