//! Streams. A stream is a queue; work that can take time (kernels, host functions, waits) is done by one worker
//! thread per stream, the rest at once when nothing is queued before it.

mod event;
pub(crate) mod graph;
mod handles;

pub(crate) use event::{EVENTS, Event};
pub(crate) use graph::{GRAPHS, Graph, Job, Keep, Occasion, Op, Replay};
pub(crate) use handles::Handles;

use crate::log::{break_device, warning};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    submitted: u64,
    completed: u64,
    has_worker: bool,
    closing: bool,
}

pub(crate) struct Stream {
    pub(crate) id: u64,
    pub(crate) device: i32,
    state: Mutex<State>,
    changed: Condvar,
    capture: Mutex<Option<Arc<Graph>>>,
}

impl Stream {
    fn new(id: u64, device: i32) -> Arc<Stream> {
        Arc::new(Stream { id, device, state: Mutex::default(), changed: Condvar::new(), capture: Mutex::default() })
    }

    pub(crate) fn capture(&self) -> Option<Arc<Graph>> {
        self.capture.lock().clone()
    }

    pub(crate) fn set_capture(&self, graph: Option<Arc<Graph>>) {
        *self.capture.lock() = graph;
    }

    /// Queues, or keeps for a graph, work that can be repeated, from a call that CUPTI has given an id.
    pub(crate) fn submit(self: &Arc<Self>, op: Op, short: bool, correlation: u32) {
        let occasion = self.occasion(correlation, None);
        if let Some(graph) = self.capture() {
            graph.push(op);
        } else if short {
            self.push_short(Box::new(move || op(&occasion)));
        } else {
            self.push(Box::new(move || op(&occasion)));
        }
    }

    pub(crate) fn replay(self: &Arc<Self>, graph: &Graph, correlation: u32) {
        for (replay, op) in graph.nodes() {
            if let Some(outer) = self.capture() {
                outer.push(op);
                continue;
            }
            let occasion = self.occasion(correlation, Some(replay));
            self.push(Box::new(move || op(&occasion)));
        }
    }

    fn occasion(&self, correlation: u32, replay: Option<Replay>) -> Occasion {
        Occasion { correlation, thread: c_double::this_thread(), device: self.device, stream: self.id, replay }
    }

    /// Queues a job that may take time.
    pub(crate) fn push(self: &Arc<Self>, job: Job) {
        let mut state = self.state.lock();
        state.jobs.push_back(job);
        state.submitted += 1;
        if !state.has_worker {
            state.has_worker = true;
            let me = self.clone();
            let thread = std::thread::Builder::new().name(format!("fakegpu-s{}", self.id));
            if let Err(error) = thread.spawn(move || me.work()) {
                state.has_worker = false;
                warning!("stream {}: cannot start its thread: {error}", self.id);
                break_device();
            }
        }
        self.changed.notify_all();
    }

    /// Runs a short job now if the stream is idle, else queues it.
    pub(crate) fn push_short(self: &Arc<Self>, job: Job) {
        if self.idle() {
            job();
        } else {
            self.push(job);
        }
    }

    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                // A fault of the emulation makes the wait for the stream fail: it must not hang.
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    break_device();
                }
                state = self.state.lock();
                state.completed += 1;
                self.changed.notify_all();
            } else if state.closing {
                state.has_worker = false;
                return;
            } else {
                self.changed.wait(&mut state);
            }
        }
    }

    /// The place in the queue behind what was submitted so far.
    pub(crate) fn mark(&self) -> u64 {
        self.state.lock().submitted
    }

    pub(crate) fn reached(&self, mark: u64) -> bool {
        self.state.lock().completed >= mark
    }

    pub(crate) fn wait(&self, mark: u64) {
        let mut state = self.state.lock();
        while state.completed < mark {
            self.changed.wait(&mut state);
        }
    }

    pub(crate) fn sync(&self) {
        self.wait(self.mark());
    }

    pub(crate) fn idle(&self) -> bool {
        self.reached(self.mark())
    }
}

static STREAMS: Handles<Stream> = Handles::new();
static DEFAULTS: Mutex<BTreeMap<i32, Arc<Stream>>> = Mutex::new(BTreeMap::new());

pub(crate) fn create(device: i32) -> usize {
    static NEXT: AtomicU64 = AtomicU64::new(17);
    STREAMS.add(Stream::new(NEXT.fetch_add(1, Ordering::Relaxed), device))
}

/// `device` is only used for the default streams (handles 0, 1 and 2).
pub(crate) fn get(handle: usize, device: i32) -> Option<Arc<Stream>> {
    if handle > 2 {
        return STREAMS.get(handle);
    }
    let mut defaults = DEFAULTS.lock();
    Some(defaults.entry(device).or_insert_with(|| Stream::new(0, device)).clone())
}

/// Forgets a stream; what is queued is still done.
pub(crate) fn destroy(handle: usize) -> bool {
    if let Some(stream) = STREAMS.get(handle) {
        stream.state.lock().closing = true;
        stream.changed.notify_all();
    }
    STREAMS.remove(handle)
}

fn all() -> Vec<Arc<Stream>> {
    let defaults: Vec<_> = DEFAULTS.lock().values().cloned().collect();
    [STREAMS.all(), defaults].concat()
}

pub(crate) fn sync_device(device: i32) {
    for stream in all().iter().filter(|stream| stream.device == device) {
        stream.sync();
    }
}

pub(crate) fn end_capture(graph: &Arc<Graph>) {
    graph.close();
    for stream in all() {
        let mut capture = stream.capture.lock();
        if capture.as_ref().is_some_and(|own| Arc::ptr_eq(own, graph)) {
            *capture = None;
        }
    }
}
