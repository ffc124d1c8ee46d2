//! Work of a device, and graphs of it. Capture is linear: what is submitted to any of the capturing streams is kept in
//! the order of the calls, and a launch of the graph repeats it in that order on one stream. The edges are not kept.

use super::handles::Handles;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) type Job = Box<dyn FnOnce() + Send>;
pub(crate) type Op = Arc<dyn Fn(&Occasion) + Send + Sync>;

/// Why something runs, for an observer of the device.
#[derive(Clone, Copy, Default)]
pub(crate) struct Occasion {
    /// CUPTI's id of the call that launched it; 0 if nobody observes
    pub(crate) correlation: u32,
    pub(crate) thread: i32,
    pub(crate) device: i32,
    pub(crate) stream: u64,
    pub(crate) replay: Option<Replay>,
}

/// Where something that runs stands in its graph; all ids are the process's own.
#[derive(Clone, Copy, Default)]
pub(crate) struct Replay {
    pub(crate) graph: u64,
    pub(crate) node: u64,
    pub(crate) source_graph: u64,
    pub(crate) source_node: u64,
}

/// What a graph keeps alive: called when the last user of the graph is gone.
pub(crate) struct Keep {
    destroy: unsafe extern "C" fn(*mut c_void),
    object: usize,
}

impl Keep {
    /// `object` is an address that only `destroy` understands.
    pub(crate) fn new(destroy: unsafe extern "C" fn(*mut c_void), object: usize) -> Keep {
        Keep { destroy, object }
    }
}

impl Drop for Keep {
    fn drop(&mut self) {
        let object = std::ptr::with_exposed_provenance_mut(self.object);
        // SAFETY: whoever made the user object gave the function and its argument for this one call.
        unsafe { (self.destroy)(object) }
    }
}

#[derive(Clone)]
struct Node {
    id: u64,
    /// in the graph that it was copied from, else its own
    source: u64,
    op: Op,
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// `CUstreamCaptureMode`
pub(crate) mod capture_mode {
    pub(crate) const GLOBAL: i32 = 0;
    pub(crate) const RELAXED: i32 = 2;
}

#[derive(Clone, Copy)]
pub(crate) struct Capture {
    pub(crate) mode: i32,
    pub(crate) thread: i32,
}

pub(crate) static GRAPHS: Handles<Graph> = Handles::new();

pub(crate) struct Graph {
    pub(crate) id: u64,
    /// the graph that it was made of, else itself
    source: u64,
    /// nothing for an executable graph
    pub(crate) capture: Option<Capture>,
    open: AtomicBool,
    /// something was done that a capture does not allow
    broken: AtomicBool,
    nodes: Mutex<Vec<Node>>,
    keeps: Mutex<Vec<Arc<Keep>>>,
}

impl Graph {
    pub(crate) fn new(capture: Capture) -> Arc<Graph> {
        let (id, open, broken) = (next_id(), AtomicBool::new(true), AtomicBool::new(false));
        let (nodes, keeps) = (Mutex::default(), Mutex::default());
        Arc::new(Graph { id, source: id, capture: Some(capture), open, broken, nodes, keeps })
    }

    pub(crate) fn copy(&self) -> Arc<Graph> {
        let copy = |node: &Node| Node { id: next_id(), source: node.id, op: node.op.clone() };
        let nodes = Mutex::new(self.nodes.lock().iter().map(copy).collect());
        let (open, broken, keeps) =
            (AtomicBool::new(false), AtomicBool::new(false), Mutex::new(self.keeps.lock().clone()));
        Arc::new(Graph { id: next_id(), source: self.id, capture: None, open, broken, nodes, keeps })
    }

    pub(crate) fn push(&self, op: Op) {
        let id = next_id();
        self.nodes.lock().push(Node { id, source: id, op });
    }

    pub(crate) fn nodes(&self) -> Vec<(Replay, Op)> {
        let replay =
            |node: &Node| Replay { graph: self.id, node: node.id, source_graph: self.source, source_node: node.source };
        let nodes = self.nodes.lock();
        nodes.iter().map(|node| (replay(node), node.op.clone())).collect()
    }

    pub(crate) fn keep(&self, keep: Arc<Keep>) {
        self.keeps.lock().push(keep);
    }

    pub(crate) fn close(&self) {
        self.open.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    pub(crate) fn spoil(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }
}
