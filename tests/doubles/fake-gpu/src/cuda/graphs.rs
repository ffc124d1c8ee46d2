//! Graphs.

use super::{BAD_HANDLE, Handle, OK, api, fail, handle, stream_of};
use crate::cupti::{self, cbid};
use crate::driver::host_callback;
use crate::log::debug;
use crate::stream::{self, Keep, Op};
use c_double::args::{In, Out};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type HostFunction = unsafe extern "C" fn(*mut c_void);

/// `cudaHostNodeParams`
#[repr(C)]
#[derive(Clone, Copy)]
struct HostNode {
    function: HostFunction,
    data: Handle,
}

/// Work that calls back into the program.
pub(super) fn host_call(function: HostFunction, data: Handle) -> Op {
    let data = data.expose_provenance();
    Arc::new(move |_| {
        let data = std::ptr::with_exposed_provenance_mut(data);
        // SAFETY: whoever submitted the function gave it this argument, to be called once per execution.
        host_callback::run(|| unsafe { function(data) });
    })
}

/// User objects that no graph has taken over yet.
static OBJECTS: Mutex<Option<HashMap<usize, Arc<Keep>>>> = Mutex::new(None);

/// Handle of a new user object.
fn next_object() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
    NEXT.fetch_add(16, Ordering::Relaxed)
}

/// Nodes are not looked at again.
const NODE: usize = 0x200;

fn add_node(graph: Handle, node: &Out<Handle>, op: impl FnOnce() -> Option<Op>) -> c_int {
    let Some(graph) = stream::graph_get(graph.addr()) else {
        return fail(BAD_HANDLE);
    };
    let Some(op) = op() else {
        return fail(BAD_HANDLE);
    };
    graph.push(op);
    node.set(handle(NODE));
    OK
}

fn instantiate(exec: &Out<Handle>, graph: Handle) -> c_int {
    let Some(graph) = stream::graph_get(graph.addr()) else {
        return fail(BAD_HANDLE);
    };
    exec.set(handle(stream::graph_add(graph.copy())));
    OK
}

fn drop_graph(graph: Handle) -> c_int {
    if stream::graph_drop(graph.addr()) {
        OK
    } else {
        fail(BAD_HANDLE)
    }
}

api! {
    fn cudaGraphInstantiate(exec: Out<Handle>, graph: Handle, _flags: c_ulonglong) -> c_int {
        instantiate(&exec, graph)
    }
    fn cudaGraphInstantiateWithFlags(exec: Out<Handle>, graph: Handle, _flags: c_ulonglong) -> c_int {
        instantiate(&exec, graph)
    }
    fn cudaGraphLaunch(exec: Handle, stream: Handle) -> c_int {
        let (Some(graph), Some(stream)) = (stream::graph_get(exec.addr()), stream_of(stream)) else {
            return fail(BAD_HANDLE);
        };
        debug!(1, "launch of graph {} on stream {}", graph.id, stream.id);
        stream.replay(&graph, cupti::api_call(cupti::DRIVER, cbid::GRAPH_LAUNCH));
        OK
    }
    fn cudaGraphExecDestroy(exec: Handle) -> c_int { drop_graph(exec) }
    fn cudaGraphDestroy(graph: Handle) -> c_int { drop_graph(graph) }
    fn cudaGraphAddEventRecordNode(node: Out<Handle>, graph: Handle, _dependencies: Handle, _count: usize,
                                   event: Handle) -> c_int {
        add_node(graph, &node, || {
            let event = stream::event_get(event.addr())?;
            Some(Arc::new(move |_| event.touch()))
        })
    }
    fn cudaGraphAddEventWaitNode(node: Out<Handle>, graph: Handle, _dependencies: Handle, _count: usize,
                                 event: Handle) -> c_int {
        add_node(graph, &node, || {
            let event = stream::event_get(event.addr())?;
            Some(Arc::new(move |_| event.sync()))
        })
    }
    fn cudaGraphAddHostNode(node: Out<Handle>, graph: Handle, _dependencies: Handle, _count: usize,
                            parameters: In<HostNode>) -> c_int {
        add_node(graph, &node, || parameters.get().map(|p| host_call(p.function, p.data)))
    }
    fn cudaGraphAddDependencies(_graph: Handle) -> c_int { OK }
    fn cudaGraphAddDependencies_v2(_graph: Handle) -> c_int { OK }
    fn cudaUserObjectCreate(object: Out<Handle>, pointer: Handle, destroy: HostFunction, _references: c_uint,
                            _flags: c_uint) -> c_int {
        let own = next_object();
        let keep = Arc::new(Keep::new(destroy, pointer.expose_provenance()));
        OBJECTS.lock().get_or_insert_default().insert(own, keep);
        object.set(handle(own));
        OK
    }
    // The only use is to hand the one reference over to the graph.
    fn cudaGraphRetainUserObject(graph: Handle, object: Handle, _count: c_uint, _flags: c_uint) -> c_int {
        let Some(graph) = stream::graph_get(graph.addr()) else { return fail(BAD_HANDLE) };
        let Some(keep) = OBJECTS.lock().get_or_insert_default().remove(&object.addr()) else {
            return fail(BAD_HANDLE);
        };
        graph.keep(keep);
        OK
    }
    fn cudaLaunchHostFunc(stream: Handle, function: HostFunction, data: Handle) -> c_int {
        let Some(stream) = stream_of(stream) else { return fail(BAD_HANDLE) };
        stream.submit(host_call(function, data), false);
        OK
    }
}
