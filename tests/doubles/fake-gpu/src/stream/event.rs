//! Events: marks in the queue of a stream.

use super::Stream;
use super::graph::Graph;
use super::handles::Handles;
use crate::clock::device_ns;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

#[derive(Default)]
struct State {
    at: Option<(Arc<Stream>, u64)>,
    time: Option<u64>,
    capture: Option<Weak<Graph>>,
}

pub(crate) static EVENTS: Handles<Event> = Handles::new();

pub(crate) struct Event {
    state: Mutex<State>,
    pub(crate) is_untimed: bool,
    /// of the thread that made it
    pub(crate) device: i32,
}

/// `CU_EVENT_DISABLE_TIMING`
const DISABLE_TIMING: u32 = 2;

impl Event {
    pub(crate) fn new(flags: u32, device: i32) -> Arc<Event> {
        let is_untimed = flags & DISABLE_TIMING != 0;
        Arc::new(Event { state: Mutex::default(), is_untimed, device })
    }

    pub(crate) fn record(self: &Arc<Self>, stream: &Arc<Stream>) {
        if let Some(graph) = stream.capture() {
            self.state.lock().capture = Some(Arc::downgrade(&graph));
            return;
        }
        let me = self.clone();
        stream.push_short(Box::new(move || me.state.lock().time = Some(device_ns())));
        let mut state = self.state.lock();
        state.capture = None;
        state.at = Some((stream.clone(), stream.mark()));
    }

    /// The capture in which the event was recorded, while it is open.
    pub(crate) fn capture(&self) -> Option<Arc<Graph>> {
        let graph = self.state.lock().capture.as_ref().and_then(Weak::upgrade);
        graph.filter(|graph| graph.is_open())
    }

    /// Recorded from within a graph: done as of now.
    pub(crate) fn touch(&self) {
        let mut state = self.state.lock();
        state.at = None;
        state.time = Some(device_ns());
    }

    pub(crate) fn target(&self) -> Option<(Arc<Stream>, u64)> {
        self.state.lock().at.clone()
    }

    pub(crate) fn done(&self) -> bool {
        self.target().is_none_or(|(stream, mark)| stream.reached(mark))
    }

    pub(crate) fn sync(&self) {
        if let Some((stream, mark)) = self.target() {
            stream.wait(mark);
        }
    }

    /// When it was reached, in nanoseconds of the device's clock.
    pub(crate) fn time(&self) -> Option<u64> {
        self.state.lock().time
    }
}
