//! Runs a program of callbacks on one or more threads and times it.

use std::io;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::mix::{Call, Program, Shape};
use super::report::{Case, Quantiles, resident_kib};
use super::timer::{Timer, approximate, now};
use crate::nccl;
use crate::plugin::{InitArguments, Plugin};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Number of threads, each with a communicator of its own.
    pub(crate) threads: usize,
    pub(crate) length: Length,
    /// The mask to drive with; `None`: the one that the plugin sets.
    pub(crate) mask: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    /// This time for the timed part, and again for the untimed one.
    Time(Duration),
    /// This many operations on each thread.
    Operations(u64),
}

/// The most samples of a thread: 64 MiB.
const MOST_SAMPLES: usize = 16 << 20;
/// An operation of the job.
const SHAPE: Shape = Shape { channels: 2, steps: 4, rank: 0, peer: 1 };
/// Operations before anything is measured: threads register, memory is touched, caches are warm.
const WARM_UP: u64 = 200;

pub(crate) fn run(plugin: &Plugin, options: Options) -> io::Result<Case> {
    let timer = Timer::calibrate();
    let before_kib = resident_kib()?;
    let contexts: Vec<u64> = (0..options.threads).map(|rank| init(plugin, rank, options.threads)).collect();
    let mask = options.mask.unwrap_or_else(nccl::mask_now);
    let program = Program::new(plugin.version, mask, SHAPE);
    if program.calls.is_empty() {
        return Err(io::Error::other(format!(
            "the plugin's mask {mask:#x} asks for none of the events of the mix: is it switched off by its environment?"
        )));
    }
    let start = Barrier::new(options.threads);
    let workers = thread::scope(|scope| {
        let mut running = Vec::new();
        for (number, context) in contexts.iter().enumerate() {
            let start = &start;
            let work = move || {
                let program = Program::new(plugin.version, mask, SHAPE);
                Worker::new(plugin, program, *context, options).measure(start)
            };
            running.push(thread::Builder::new().name(format!("bench {number}")).spawn_scoped(scope, work)?);
        }
        running
            .into_iter()
            .map(|worker| worker.join().map_err(|_| io::Error::other("a worker panicked")))
            .collect::<io::Result<Vec<Worked>>>()
    })?;
    let grown_kib = resident_kib()?.saturating_sub(before_kib);
    for context in contexts {
        plugin.finalize(context);
    }
    Ok(summary(&Measured { plugin, mask, program: &program, timer, workers: &workers, grown_kib }))
}

/// Calls nothing but the callbacks, for instruction counts: no clock, no samples, one thread.
///
/// Returns the number of callbacks.
pub(crate) fn run_bare(plugin: &Plugin, options: Options, operations: u64) -> u64 {
    let context = init(plugin, 0, 1);
    let mask = options.mask.unwrap_or_else(nccl::mask_now);
    let program = Program::new(plugin.version, mask, SHAPE);
    let calls = program.calls.len() as u64;
    let mut worker = Worker::new(plugin, program, context, options);
    for _ in 0..operations {
        worker.operation();
    }
    plugin.finalize(context);
    calls * operations
}

fn init(plugin: &Plugin, rank: usize, ranks: usize) -> u64 {
    plugin.begin(&InitArguments {
        comm_id: 0x0bec_0bec_0bec_0bec,
        comm_name: Some(c"bench"),
        nodes: 1,
        ranks: i32::try_from(ranks).unwrap_or(i32::MAX),
        rank: i32::try_from(rank).unwrap_or(0),
        mask: true,
        logger: true,
    })
}

/// What a thread brings back.
struct Worked {
    /// One list for each category, in ticks.
    samples: Vec<Vec<u32>>,
    /// Whether the timed part ended because the sample arrays were full.
    samples_full: bool,
    calls: u64,
    untimed: Duration,
    all_calls: u64,
}

struct Worker<'a> {
    plugin: &'a Plugin,
    program: Program,
    handles: Vec<u64>,
    context: u64,
    options: Options,
}

impl<'a> Worker<'a> {
    fn new(plugin: &'a Plugin, program: Program, context: u64, options: Options) -> Self {
        Self { plugin, handles: vec![0; program.slots], program, context, options }
    }

    fn measure(mut self, start: &Barrier) -> Worked {
        let mut samples = self.sample_arrays();
        start.wait();
        for _ in 0..WARM_UP {
            self.operation();
        }
        start.wait();
        let timed = self.repeat(|worker| worker.timed_operation(&mut samples));
        let samples_full = samples.iter().any(|array| array.len() == array.capacity())
            && matches!(self.options.length, Length::Time(_));
        start.wait();
        let (operations, untimed) = self.repeat(|worker| {
            worker.operation();
            true
        });
        let calls = self.program.calls.len() as u64;
        Worked {
            samples,
            samples_full,
            calls: calls * operations,
            untimed,
            all_calls: calls * (operations + timed.0 + WARM_UP),
        }
    }

    /// Repeats an operation until the length is reached or it says that it cannot go on.
    fn repeat(&mut self, mut operation: impl FnMut(&mut Self) -> bool) -> (u64, Duration) {
        let begin = Instant::now();
        let mut done = 0;
        loop {
            let enough = match self.options.length {
                Length::Operations(operations) => done >= operations,
                Length::Time(time) => done % 16 == 0 && begin.elapsed() >= time,
            };
            if enough || !operation(self) {
                return (done, begin.elapsed());
            }
            done += 1;
        }
    }

    /// Arrays for the samples, large enough and touched, so that the loop has no page fault of its own.
    fn sample_arrays(&self) -> Vec<Vec<u32>> {
        let all = self.program.calls.len();
        let most = MOST_SAMPLES / all.max(1);
        let operations = match self.options.length {
            Length::Operations(operations) => usize::try_from(operations).unwrap_or(most).min(most),
            // No callback is faster than about 5 ns.
            Length::Time(time) => (usize::try_from(time.as_nanos() / 5).unwrap_or(most) / all.max(1)).min(most),
        };
        let mut arrays = Vec::new();
        for category in 0..self.program.categories.len() {
            let calls = self.program.calls.iter().filter(|call| call.category == category);
            let mut array = vec![1; (operations + 1) * calls.count()];
            array.clear();
            arrays.push(array);
        }
        arrays
    }

    #[inline]
    fn operation(&mut self) {
        for place in 0..self.program.calls.len() {
            let call = self.program.calls[place];
            self.call(call);
        }
    }

    /// Returns whether there is room for another one.
    #[inline]
    fn timed_operation(&mut self, samples: &mut [Vec<u32>]) -> bool {
        for place in 0..self.program.calls.len() {
            let call = self.program.calls[place];
            let begin = now();
            self.call(call);
            let ticks = now().wrapping_sub(begin);
            let array = &mut samples[call.category];
            if array.len() == array.capacity() {
                return false;
            }
            array.push(u32::try_from(ticks).unwrap_or(u32::MAX));
        }
        true
    }

    #[inline]
    fn call(&mut self, call: Call) {
        self.program.call(self.plugin, self.context, &mut self.handles, call);
    }
}

struct Measured<'a> {
    plugin: &'a Plugin,
    mask: u32,
    program: &'a Program,
    timer: Timer,
    workers: &'a [Worked],
    /// Resident memory after the last callback less that before init.
    grown_kib: u64,
}

fn summary(measured: &Measured<'_>) -> Case {
    let (workers, timer) = (measured.workers, &measured.timer);
    let mut all: Vec<u32> = Vec::new();
    let mut by_callback = Vec::new();
    for (category, name) in measured.program.categories.iter().enumerate() {
        let mut samples: Vec<u32> =
            workers.iter().filter_map(|worker| worker.samples.get(category)).flatten().copied().collect();
        all.extend_from_slice(&samples);
        by_callback.extend(Quantiles::of(name, &mut samples, timer));
    }
    let rate = |worker: &Worked| approximate(worker.calls) / worker.untimed.as_secs_f64().max(1e-9);
    let calls: u64 = workers.iter().map(|worker| worker.all_calls).sum();
    let threads = workers.len() as u64;
    let sample_bytes = workers.iter().flat_map(|worker| &worker.samples).map(Vec::capacity).sum::<usize>() * 4;
    let samples_kib = sample_bytes as u64 / 1024;
    Case {
        file: measured.plugin.path.display().to_string(),
        plugin: measured.plugin.name.clone(),
        table: measured.plugin.version.number(),
        mask: measured.mask,
        threads,
        calls,
        samples_full: workers.iter().any(|worker| worker.samples_full),
        timer_cost_ns: timer.cost_ns(),
        overall: Quantiles::of("all callbacks", &mut all, timer),
        by_callback,
        calls_per_second: workers.iter().map(rate).sum(),
        untimed_ns_per_call: workers.iter().map(|worker| 1e9 / rate(worker)).sum::<f64>() / approximate(threads),
        resident_growth_kib_per_thread: measured.grown_kib.saturating_sub(samples_kib) / threads,
        late_log_lines: nccl::lines().1,
    }
}
