//! Graphs. Capture is linear: what is submitted to any of the capturing streams is kept in the order of the
//! calls, and a launch of the graph repeats it in that order on one stream. The edges are not kept.

use super::Op;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

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

/// A sequence of operations, being captured or ready to be launched.
pub(crate) struct Graph {
    pub(crate) id: u64,
    /// still being captured
    open: AtomicBool,
    ops: Mutex<Vec<Op>>,
    keeps: Mutex<Vec<Arc<Keep>>>,
}

impl Graph {
    pub(crate) fn new() -> Arc<Graph> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Graph {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            open: AtomicBool::new(true),
            ops: Mutex::default(),
            keeps: Mutex::default(),
        })
    }

    /// An executable copy.
    pub(crate) fn copy(&self) -> Arc<Graph> {
        let copy = Graph::new();
        self.ops.lock().clone_into(&mut copy.ops.lock());
        self.keeps.lock().clone_into(&mut copy.keeps.lock());
        copy
    }

    pub(crate) fn push(&self, op: Op) {
        self.ops.lock().push(op);
    }

    pub(crate) fn ops(&self) -> Vec<Op> {
        self.ops.lock().clone()
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
}

fn graphs() -> &'static Mutex<HashMap<usize, Arc<Graph>>> {
    static GRAPHS: OnceLock<Mutex<HashMap<usize, Arc<Graph>>>> = OnceLock::new();
    GRAPHS.get_or_init(Mutex::default)
}

/// Makes a graph known; its handle.
pub(crate) fn graph_add(graph: Arc<Graph>) -> usize {
    let handle = Arc::as_ptr(&graph) as usize;
    graphs().lock().insert(handle, graph);
    handle
}

pub(crate) fn graph_get(handle: usize) -> Option<Arc<Graph>> {
    graphs().lock().get(&handle).cloned()
}

pub(crate) fn graph_drop(handle: usize) -> bool {
    // Dropped after the lock is: what the graph kept may call back.
    let graph = graphs().lock().remove(&handle);
    graph.is_some()
}
