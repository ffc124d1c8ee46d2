//! CUDA graphs made by stream capture.

use super::entry::Pointer;
use super::{Stream, given_up};
use std::ptr::null_mut;

/// cudaStreamCaptureModeRelaxed: other threads of the process use CUDA meanwhile.
const RELAXED: i32 = 2;

/// An executable graph. The buffers it uses must outlive it; so must the stream.
#[derive(Debug)]
pub(crate) struct Graph<'s> {
    stream: &'s Stream,
    graph: Pointer,
    exec: Pointer,
}

impl Stream {
    pub(crate) fn capture(&self, submit: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Graph<'_>> {
        let cuda = self.cuda;
        // SAFETY: the stream is live.
        let result = unsafe { (cuda.entry.stream_begin_capture)(self.raw(), RELAXED) };
        cuda.check("cudaStreamBeginCapture", result)?;
        submit()?;
        let mut graph: Pointer = null_mut();
        // SAFETY: the stream is live and capturing; CUDA writes one handle.
        let result = unsafe { (cuda.entry.stream_end_capture)(self.raw(), &raw mut graph) };
        cuda.check("cudaStreamEndCapture", result)?;
        let mut exec: Pointer = null_mut();
        // SAFETY: `graph` is the live handle from the line above; CUDA writes one handle.
        let result = unsafe { (cuda.entry.graph_instantiate)(&raw mut exec, graph, 0) };
        cuda.check("cudaGraphInstantiateWithFlags", result)?;
        Ok(Graph { stream: self, graph, exec })
    }
}

impl Graph<'_> {
    pub(crate) fn launch(&self) -> anyhow::Result<()> {
        let cuda = self.stream.cuda;
        // SAFETY: both handles are live.
        let result = unsafe { (cuda.entry.graph_launch)(self.exec, self.stream.raw()) };
        cuda.check("cudaGraphLaunch", result)
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        if given_up() || self.stream.synchronize().is_err() {
            return;
        }
        let entry = &self.stream.cuda.entry;
        // SAFETY: a live handle, not used again; no launch of it is pending.
        let _ = unsafe { (entry.graph_exec_destroy)(self.exec) };
        // SAFETY: a live handle, not used again.
        let _ = unsafe { (entry.graph_destroy)(self.graph) };
    }
}
