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

use crate::gpu::driver::{CudaError, DeviceContext, Driver};
use crate::gpu::events::pool::{Collected, Context, Pool, Shared};
use crate::gpu::output::{Backend, Launch, Output};
use journal::clock::monotonic_ns;
use nccl_events::gpu::{Backend as BackendKind, GpuCount};
use nccl_events::ids::EventId;
use parking_lot::Mutex;

mod pool;
mod reference;

pub(crate) struct Events {
    shared: Shared,
    worker: Mutex<Worker>,
}

impl Events {
    pub(crate) fn new(driver: Driver) -> Self {
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

/// How often the worker checks for finished launches: when a quarter of the events are in use, and when few are. With
/// the initial number of events, the slower pace is enough for 5000 launches a second that all begin at once.
const PACES_MS: [u32; 2] = [5, 100];

/// The worker's side: starts and ends contexts, collects launch times, and counts and reports losses.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    contexts: Vec<Context>,
    clocks: Vec<ClockReading>,
    launches: u64,
    /// Launches that were recorded or counted as not timed.
    settled: u64,
    has_reported_error: bool,
    /// Entries of contexts that failed; their events must not be touched again.
    spent: Vec<usize>,
    failed_devices: Vec<u32>,
}

/// A device's clock when its context ended, and CLOCK_MONOTONIC at that time.
#[derive(Debug)]
struct ClockReading {
    ordinal: u32,
    gpu_ns: u64,
    monotonic_ns: u64,
}

impl Worker {
    /// Prepares a communicator's context, unless another communicator already uses the context.
    pub(crate) fn communicator_begins(
        &mut self,
        shared: &Shared,
        communicator: u64,
        device: DeviceContext,
        out: &mut dyn Output,
    ) {
        if shared.is_over() {
            return;
        }
        if let Some(context) = self.context_of(device) {
            context.communicators.push(communicator);
            return;
        }
        let ordinal = device.ordinal;
        if self.failed_devices.contains(&ordinal) {
            return;
        }
        if self.contexts.iter().any(|context| context.device.ordinal == ordinal) {
            // A device's clock is built from one context's events: CUDA cannot compare events of two contexts.
            let text = format!(
                "launches of one communicator on GPU {ordinal} are not timed: it uses a second context of the device"
            );
            out.fault(BackendKind::Events, &text);
            return;
        }
        let free = shared.entries.iter().enumerate().find(|(index, _)| {
            let uses_it = |context: &Context| context.entry == *index;
            !self.contexts.iter().any(uses_it) && !self.spent.contains(index)
        });
        let Some((index, entry)) = free else {
            let most = shared.entries.len();
            out.fault(
                BackendKind::Events,
                &format!("more than {most} contexts: launches on GPU {ordinal} are not timed"),
            );
            return;
        };
        let pool = entry.pool.get_or_init(Pool::new);
        let first_ns = self.next_clock_ns(ordinal);
        match Context::new(&shared.driver, device, index, pool, first_ns, out) {
            Ok(mut context) => {
                context.communicators.push(communicator);
                open_if_ready(&mut context, shared);
                self.contexts.push(context);
            }
            Err(error) => self.fail(shared, index, ordinal, error, out),
        }
    }

    /// After a context's last communicator: waits for its launches, and destroys everything that the plugin made there,
    /// because the program may reset the device when this returns.
    pub(crate) fn communicator_ends(
        &mut self,
        shared: &Shared,
        communicator: u64,
        out: &mut dyn Output,
        deadline: Instant,
    ) {
        for context in &mut self.contexts {
            context.communicators.retain(|other| *other != communicator);
        }
        let is_unused = |context: &Context| context.communicators.is_empty();
        let Some(index) = self.contexts.iter().position(is_unused) else {
            return;
        };
        let context = self.contexts.swap_remove(index);
        shared.close(context.entry);
        let ordinal = context.device.ordinal;
        let ended = self.with_context(shared, context, out, |context, pool, out| {
            context.collect_last(&shared.driver, pool, out, deadline)
        });
        let Some((context, recorded)) = ended else {
            return;
        };
        self.settled += recorded;
        self.clocks.retain(|clock| clock.ordinal != ordinal);
        let monotonic_ns = monotonic_ns();
        self.clocks.extend(context.newest_ns().map(|gpu_ns| ClockReading { ordinal, gpu_ns, monotonic_ns }));
        let entry = context.entry;
        let destroyed = shared.at(entry).map(|(_, pool)| context.destroy(&shared.driver, pool));
        if let Some(Err(error)) = destroyed {
            self.fail(shared, entry, ordinal, error, out);
        }
    }

    /// Runs `action` on a context that still exists; a failure ends the timing of its device.
    fn with_context<T>(
        &mut self,
        shared: &Shared,
        mut context: Context,
        out: &mut dyn Output,
        action: impl FnOnce(&mut Context, &Pool, &mut dyn Output) -> Result<T, CudaError>,
    ) -> Option<(Context, T)> {
        let (_, pool) = shared.at(context.entry)?;
        if shared.is_over() || self.is_gone(shared, &context, out) {
            return None;
        }
        match action(&mut context, pool, out) {
            Ok(done) => Some((context, done)),
            Err(error) => {
                self.fail(shared, context.entry, context.device.ordinal, error, out);
                None
            }
        }
    }

    pub(crate) fn collect(&mut self, shared: &Shared, out: &mut dyn Output) {
        let mut fewest_free = u32::MAX;
        for context in std::mem::take(&mut self.contexts) {
            let collected = self
                .with_context(shared, context, out, |context, pool, out| context.collect(&shared.driver, pool, out));
            if let Some((mut context, Collected { recorded, free_percent, .. })) = collected {
                self.settled += recorded;
                open_if_ready(&mut context, shared);
                fewest_free = fewest_free.min(free_percent);
                self.contexts.push(context);
            }
        }
        let [shortest, longest] = PACES_MS;
        let pace = shared.pace_ms.load(Ordering::Relaxed);
        let pace = if fewest_free < 75 { pace / 2 } else { pace * 2 };
        shared.pace_ms.store(pace.clamp(shortest, longest), Ordering::Relaxed);
        self.count(shared, out);
    }

    /// Waits for launches, and counts launches that do not end. Destroys nothing: other threads may still launch.
    pub(crate) fn finish(&mut self, shared: &Shared, out: &mut dyn Output, deadline: Instant) {
        for entry in &shared.entries {
            entry.context.store(0, Ordering::Relaxed);
        }
        for context in std::mem::take(&mut self.contexts) {
            let recorded = self.with_context(shared, context, out, |context, pool, out| {
                context.collect_last(&shared.driver, pool, out, deadline)
            });
            self.settled += recorded.map_or(0, |(_, recorded)| recorded);
        }
        self.count(shared, out);
        out.count(GpuCount::Unfinished, self.launches.saturating_sub(self.settled));
        shared.stop();
    }

    #[cfg(test)]
    pub(crate) fn renew_references(&mut self, shared: &Shared, out: &mut dyn Output) {
        for context in &mut self.contexts {
            context.renew(&shared.driver, out);
        }
    }

    fn context_of(&mut self, device: DeviceContext) -> Option<&mut Context> {
        self.contexts.iter_mut().find(|context| context.device == device)
    }

    /// The value at which a device's clock continues in a new context: where it ended, plus the time since.
    fn next_clock_ns(&self, ordinal: u32) -> u64 {
        let last = self.clocks.iter().find(|clock| clock.ordinal == ordinal);
        last.map_or(0, |last| last.gpu_ns + monotonic_ns().saturating_sub(last.monotonic_ns))
    }

    /// Whether the program has reset the device under a context; if so, reports it.
    fn is_gone(&mut self, shared: &Shared, context: &Context, out: &mut dyn Output) -> bool {
        let is_gone = context.is_gone(&shared.driver);
        if is_gone {
            // The program may use the device again, in a new context.
            shared.close(context.entry);
            self.spent.push(context.entry);
            let ordinal = context.device.ordinal;
            let text = format!(
                "launches on GPU {ordinal} are no longer timed: the program has reset the device while a communicator \
                used it"
            );
            out.fault(self.backend(), &text);
        }
        is_gone
    }

    /// Stops timing a device for good: a call that failed once can crash the next time.
    fn fail(&mut self, shared: &Shared, entry: usize, ordinal: u32, error: CudaError, out: &mut dyn Output) {
        shared.close(entry);
        self.spent.push(entry);
        self.failed_devices.push(ordinal);
        if error == CudaError::DEINITIALIZED {
            shared.stop();
            return;
        }
        let text = format!(
            "launches on GPU {ordinal} are no longer timed by CUDA events: {error}. NCCL's events are complete; \
            NCCL_OTF2_GPU=off silences this"
        );
        out.fault(self.backend(), &text);
    }

    fn backend(&self) -> BackendKind {
        if self.contexts.is_empty() { BackendKind::Off } else { BackendKind::Events }
    }

    fn count(&mut self, shared: &Shared, out: &mut dyn Output) {
        let reported = shared.counts.report(out);
        self.launches += reported.launches;
        self.settled += reported.not_timed;
        if let Some(code) = reported.error
            && !std::mem::replace(&mut self.has_reported_error, true)
        {
            let text = match CudaError(code) {
                CudaError::DEINITIALIZED => return,
                CudaError::NO_EVENTS => {
                    "the plugin has no events in the CUDA context that is current when NCCL launches".to_owned()
                }
                error => error.to_string(),
            };
            out.fault(
                self.backend(),
                &format!("some launches are not timed by CUDA events: {text}. NCCL's events are complete"),
            );
        }
    }
}

fn open_if_ready(context: &mut Context, shared: &Shared) {
    if !context.is_open
        && context.is_ready()
        && let Some((entry, _)) = shared.at(context.entry)
    {
        context.is_open = true;
        entry.context.store(context.device.context.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
