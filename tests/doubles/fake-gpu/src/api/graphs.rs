//! Graphs, and host functions.

use super::call::{Handle, Outcome, code, event_of, give, handle, known, run_host_function, runtime, stream_of};
use crate::cupti::{self, cbid};
use crate::stream::{GRAPHS, Graph, Handles, Keep, Op};
use c_double::args::{In, Out};
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::Arc;

type HostFunction = unsafe extern "C" fn(*mut c_void);

/// `cudaHostNodeParams`
#[repr(C)]
#[derive(Clone, Copy)]
struct HostNode {
    function: HostFunction,
    data: Handle,
}

fn host_call(function: HostFunction, data: Handle) -> Op {
    let data = data.expose_provenance();
    Arc::new(move |_| {
        let data = std::ptr::with_exposed_provenance_mut(data);
        // SAFETY: whoever submitted the function gave it this argument, to be called once per execution.
        run_host_function(|| unsafe { function(data) });
    })
}

/// User objects that no graph has taken over yet.
static OBJECTS: Handles<Keep> = Handles::new();

fn graph_of(graph: Handle) -> Result<Arc<Graph>, c_int> {
    GRAPHS.get(graph.addr()).ok_or(code::BAD_HANDLE)
}

fn add_node(graph: Handle, node: Out<Handle>, op: Op) -> Outcome {
    graph_of(graph)?.push(op);
    // Nodes are not looked at again.
    give(node, handle(0x200))
}

fn instantiate(exec: Out<Handle>, graph: Handle) -> Outcome {
    give(exec, handle(GRAPHS.add(graph_of(graph)?.copy())))
}

runtime! {
    fn cudaGraphInstantiate(exec: Out<Handle>, graph: Handle, _flags: c_ulonglong) { instantiate(exec, graph) }
    fn cudaGraphInstantiateWithFlags(exec: Out<Handle>, graph: Handle, _flags: c_ulonglong) {
        instantiate(exec, graph)
    }
    fn cudaGraphLaunch(exec: Handle, stream: Handle) {
        let (graph, stream) = (graph_of(exec)?, stream_of(stream)?);
        stream.replay(&graph, cupti::api_call(cupti::DRIVER, cbid::GRAPH_LAUNCH));
        Ok(())
    }
    fn cudaGraphExecDestroy(exec: Handle) { known(GRAPHS.remove(exec.addr())) }
    fn cudaGraphDestroy(graph: Handle) { known(GRAPHS.remove(graph.addr())) }
    fn cudaGraphAddEventRecordNode(node: Out<Handle>, graph: Handle, _dependencies: Handle, _count: usize,
                                   event: Handle) {
        let event = event_of(event)?;
        add_node(graph, node, Arc::new(move |_| event.touch()))
    }
    fn cudaGraphAddEventWaitNode(node: Out<Handle>, graph: Handle, _dependencies: Handle, _count: usize,
                                 event: Handle) {
        let event = event_of(event)?;
        add_node(graph, node, Arc::new(move |_| event.sync()))
    }
    fn cudaGraphAddHostNode(node: Out<Handle>, graph: Handle, _dependencies: Handle, _count: usize,
                            parameters: In<HostNode>) {
        let HostNode { function, data } = parameters.get().ok_or(code::INVALID)?;
        add_node(graph, node, host_call(function, data))
    }
    fn cudaGraphAddDependencies(_graph: Handle) { Ok(()) }
    fn cudaGraphAddDependencies_v2(_graph: Handle) { Ok(()) }
    fn cudaUserObjectCreate(object: Out<Handle>, pointer: Handle, destroy: HostFunction, _references: c_uint,
                            _flags: c_uint) {
        give(object, handle(OBJECTS.add(Arc::new(Keep::new(destroy, pointer.expose_provenance())))))
    }
    // The only use is to hand the one reference over to the graph.
    fn cudaGraphRetainUserObject(graph: Handle, object: Handle, _count: c_uint, _flags: c_uint) {
        let (graph, keep) = (graph_of(graph)?, OBJECTS.get(object.addr()).ok_or(code::BAD_HANDLE)?);
        graph.keep(keep);
        known(OBJECTS.remove(object.addr()))
    }
    fn cudaLaunchHostFunc(stream: Handle, function: HostFunction, data: Handle) {
        stream_of(stream)?.submit(host_call(function, data), false, 0);
        Ok(())
    }
}
