//! Times GPU work with CUDA events, recorded in the launch's stream before and after the work that NCCL launches. This
//! disturbs no other tool and needs only the driver.
//!
//! ```text
//!   launching thread   begins: takes a pair of events; is the stream captured? cuEventRecord(before)
//!                      NCCL launches
//!                      ends: cuEventRecord(after), leaves the pair to the worker
//!   worker             a reference event each second; cuEventQuery and cuEventElapsedTime for the pairs, frees them
//! ```
//!
//! A launch into a stream that captures a graph gets no events: they would become part of the graph, and captured work
//! does not run. The launching thread's current context is NCCL's, and the launch's stream and device belong to it. The
//! events belong to the same context; the driver itself rejects others.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::backend::{Backend, Launch, Output};
use super::driver::{DeviceContext, Driver};
use nccl_events::ids::EventId;

mod context;
mod pool;
mod reference;
mod shared;
#[cfg(test)]
mod tests;
mod thread;
mod worker;

use shared::Shared;
use worker::Worker;

pub(super) struct Events {
    shared: Shared,
    worker: Mutex<Worker>,
}

impl Events {
    pub(super) fn new(driver: Driver) -> Self {
        Self { shared: Shared::new(driver), worker: Mutex::default() }
    }

    /// Moves out the worker's state, so that no lock is held while CUDA is called.
    fn on_worker(&self, action: impl FnOnce(&mut Worker)) {
        let mut worker = std::mem::take(&mut *self.worker.lock());
        action(&mut worker);
        *self.worker.lock() = worker;
    }
}

impl Backend for Events {
    fn begins(&self, launch: Launch) {
        self.shared.begins(launch);
    }

    fn ends(&self, id: EventId) {
        self.shared.ends(id);
    }

    fn communicator_begins(&self, communicator: u64, device: DeviceContext, out: &mut dyn Output) {
        self.on_worker(|worker| {
            worker.communicator_begins(&self.shared, communicator, device, out);
        });
    }

    fn communicator_ends(&self, communicator: u64, out: &mut dyn Output, deadline: Instant) {
        self.on_worker(|worker| {
            worker.communicator_ends(&self.shared, communicator, out, deadline);
        });
    }

    fn collect(&self, out: &mut dyn Output) {
        self.on_worker(|worker| worker.collect(&self.shared, out));
    }

    fn pace(&self) -> Duration {
        Duration::from_millis(self.shared.pace_ms.load(Ordering::Relaxed).into())
    }

    fn finish(&self, out: &mut dyn Output, deadline: Instant) {
        self.on_worker(|worker| worker.finish(&self.shared, out, deadline));
    }
}
