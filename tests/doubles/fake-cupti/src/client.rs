//! Who gets records: the process as a whole (V1), or a subscriber (V2).

use crate::buffer::{Buffer, record_len};
use crate::guard::{Code, INVALID_PARAMETER, QUEUE_EMPTY, in_callback, misuse};
use crate::level::{self, kind};
use crate::records::{self, Api};
use crate::{queue, variables};
use c_double::{Work, count, counted, this_thread};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

/// `CUpti_BufferCallbackRequestInfo`, `CUpti_BufferCallbackCompleteInfo`: length; thread, layouts and their number.
type Info = [u64; 4];

pub(crate) type RequestV1 = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub(crate) type CompleteV1 = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
pub(crate) type RequestV2 = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize, *mut Info);
pub(crate) type CompleteV2 = unsafe extern "C" fn(*mut u8, usize, usize, *mut Info);

#[derive(Clone, Copy)]
pub(crate) enum Callbacks {
    V1(RequestV1, CompleteV1),
    V2(RequestV2, CompleteV2),
}

/// Which records a buffer has: a thread's (0: all threads'), and whether they are of GPU work, where these are kept
/// apart.
type Key = (i32, bool);

#[derive(Default)]
pub(crate) struct State {
    pub(crate) callbacks: Option<Callbacks>,
    pub(crate) kinds: BTreeSet<u32>,
    /// Kind and number of functions, and whether their calls are recorded, against what the kind says.
    pub(crate) functions: BTreeMap<(u32, u32), bool>,
    /// external ids, by thread and kind
    stacks: HashMap<(i32, u32), Vec<u64>>,
    current: BTreeMap<Key, Buffer>,
    pub(crate) dropped: usize,
    pub(crate) per_thread: bool,
    pub(crate) promised_clean: bool,
}

pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) state: Mutex<State>,
}

pub(crate) struct Call {
    pub(crate) kind: u32,
    pub(crate) cbid: u32,
    pub(crate) correlation: u32,
    pub(crate) start: u64,
}

impl Client {
    pub(crate) fn new(name: &str) -> Arc<Client> {
        let per_thread = variables::get().level >= level::PER_THREAD_DEFAULT;
        let state = State { per_thread, ..State::default() };
        Arc::new(Client { name: name.to_owned(), state: Mutex::new(state) })
    }

    pub(crate) fn wants(&self, kind: u32) -> bool {
        self.state.lock().kinds.contains(&kind)
    }

    pub(crate) fn drop_one(&self) {
        self.state.lock().dropped += 1;
    }

    pub(crate) fn push_id(&self, kind: u32, id: u64) -> Result<(), Code> {
        // 0 is no kind, 6 the number of kinds.
        if !(1..6).contains(&kind) {
            return Err(INVALID_PARAMETER);
        }
        count("pushes", 1);
        let key = (this_thread(), kind);
        self.state.lock().stacks.entry(key).or_default().push(id);
        Ok(())
    }

    pub(crate) fn pop_id(&self, kind: u32) -> Result<u64, Code> {
        let mut state = self.state.lock();
        let popped = state.stacks.get_mut(&(this_thread(), kind)).and_then(Vec::pop);
        count(if popped.is_some() { "pops" } else { "pops_of_nothing" }, 1);
        popped.ok_or(QUEUE_EMPTY)
    }

    /// Writes down an API call, if it is wanted: first an id for each stack of the thread that is not empty.
    pub(crate) fn note_call(self: &Arc<Self>, call: &Call) {
        let thread = this_thread();
        let mut records = Vec::new();
        let (key, wants_buffer) = {
            let state = self.state.lock();
            let by_kind = state.kinds.contains(&call.kind);
            if state.functions.get(&(call.kind, call.cbid)).copied().unwrap_or(by_kind) {
                if state.kinds.contains(&kind::EXTERNAL_CORRELATION) {
                    let top = |kind| Some((kind, *state.stacks.get(&(thread, kind))?.last()?));
                    let tops = (1..6).filter_map(top);
                    records.extend(tops.map(|(kind, id)| records::external(kind, id, call.correlation)));
                }
                records.push(records::api(&Api {
                    kind: call.kind,
                    cbid: call.cbid,
                    start: call.start,
                    end: call.start + 2_000,
                    thread: u32::try_from(thread).unwrap_or(0),
                    correlation: call.correlation,
                }));
            }
            let key = (if state.per_thread { thread } else { 0 }, false);
            (key, state.kinds.contains(&kind::CONCURRENT_KERNEL))
        };
        if records.is_empty() && wants_buffer {
            // The kernel's record needs a buffer, and that is asked for here too.
            self.provide(key);
        }
        records.iter().for_each(|record| self.write(key, record));
    }

    pub(crate) fn note_work(self: &Arc<Self>, thread: i32, record: &[u8]) {
        let per_thread = self.state.lock().per_thread;
        self.write((if per_thread { thread } else { 0 }, variables::get().split), record);
    }

    /// Takes the buffers that are to be completed: buffers of `busy` threads stay. If `forced`, all buffers, also empty
    /// ones.
    pub(crate) fn take_buffers(&self, forced: bool, busy: &BTreeSet<i32>) -> Vec<Buffer> {
        let current = &mut self.state.lock().current;
        let is_complete = |thread: &i32| !busy.contains(thread) && (*thread != 0 || busy.is_empty());
        let is_due = |(thread, _): &Key, buffer: &mut Buffer| forced || (buffer.valid > 0 && is_complete(thread));
        current.extract_if(.., is_due).map(|(_, buffer)| buffer).collect()
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
            self.complete_soon(before);
        }
        true
    }

    fn write(self: &Arc<Self>, key: Key, record: &[u8]) {
        loop {
            let full = {
                let current = &mut self.state.lock().current;
                if current.get_mut(&key).is_some_and(|buffer| buffer.push(record)) {
                    return;
                }
                current.remove(&key)
            };
            if let Some(full) = full {
                if full.valid == 0 {
                    misuse(&format!("a buffer of {} bytes for a record of {}", full.len, record.len()));
                }
                self.complete_soon(full);
            }
            if !self.provide(key) {
                return self.drop_one();
            }
        }
    }

    fn complete_soon(self: &Arc<Self>, buffer: Buffer) {
        let me = self.clone();
        queue::put(Instant::now(), move || me.complete(buffer));
    }

    fn request(&self, (thread, _): Key) -> Option<Buffer> {
        let callbacks = self.state.lock().callbacks?;
        let (mut start, mut len, mut max_records) = (null_mut::<u8>(), 0_usize, 0_usize);
        let mut info: Info = [8, 0, 0, 0];
        let answers = (&raw mut start, &raw mut len, &raw mut max_records);
        in_callback(|| match callbacks {
            // SAFETY: the tool's function, of this type by the call that registered it, and places for its answers.
            Callbacks::V1(request, _) => unsafe { request(answers.0, answers.1, answers.2) },
            // SAFETY: as above.
            Callbacks::V2(request, _) => unsafe {
                request(answers.0, answers.1, answers.2, &raw mut info);
            },
        });
        if start.is_null() || len == 0 {
            if variables::get().level < level::NULL_BUFFER {
                misuse("NULL for a buffer: this release may crash of that");
            }
            return None;
        }
        if !start.addr().is_multiple_of(8) {
            misuse(&format!("a buffer at {start:?}, which is no multiple of 8"));
        }
        count("buffers_requested", 1);
        let thread = if thread == 0 { this_thread() } else { thread };
        // SAFETY: what the tool's request callback gave is CUPTI's until it is completed.
        let buffer = unsafe { Buffer::new(start, len, thread) };
        if self.state.lock().promised_clean && !buffer.looks_clean() {
            misuse("a buffer that is not zeroed, against attribute 5");
        }
        Some(buffer)
    }

    pub(crate) fn complete(&self, mut buffer: Buffer) {
        buffer.finish();
        count("buffers_completed", 1);
        let thread = buffer.thread;
        self.give(buffer);
        if variables::get().foreign_buffer && counted("buffers_completed") == 1 {
            self.give(foreign_buffer(thread));
        }
    }

    fn give(&self, Buffer { start, len, valid, thread }: Buffer) {
        let callbacks = self.state.lock().callbacks;
        let mut info: Info = [32, u64::try_from(thread).unwrap_or(0), 0, 0];
        in_callback(|| match callbacks {
            None => {}
            // SAFETY: the tool's function, of this type by the call that registered it; the buffer is the tool's again.
            Some(Callbacks::V1(_, complete)) => unsafe { complete(null_mut(), 0, start, len, valid) },
            // SAFETY: as above.
            Some(Callbacks::V2(_, complete)) => unsafe { complete(start, len, valid, &raw mut info) },
        });
    }
}

/// A buffer that the tool never gave, with a kernel in it. Who writes to it crashes, and who frees it too.
fn foreign_buffer(thread: i32) -> Buffer {
    const LEN: usize = 4096;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new private mapping at an address that the kernel chooses touches no existing memory.
    let mapped = unsafe { libc::mmap(null_mut(), LEN, access, flags, -1, 0) };
    assert!(mapped != libc::MAP_FAILED, "no memory for a foreign buffer");
    // SAFETY: the mapping above, which nobody else knows yet.
    let mut buffer = unsafe { Buffer::new(mapped.cast(), LEN, thread) };
    let name = c"foreign_kernel".as_ptr().expose_provenance() as u64;
    let work = Work { name, ..Work::default() };
    let len = record_len(kind::CONCURRENT_KERNEL).unwrap_or(0);
    buffer.push(&records::kernel(len, &work, 1, 2));
    // SAFETY: the whole of the mapping above.
    let _ = unsafe { libc::mprotect(mapped, LEN, libc::PROT_READ) };
    buffer
}
