//! `plugin-host bench`: times the callbacks of a profiler plugin.
//!
//! The loops neither allocate nor lock: descriptors are made before, samples go into arrays that were made and touched
//! before.

pub(crate) mod mix;
mod timer;

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use anyhow::ensure;
use serde_json::{Value, json};

use crate::interface::Version;
use crate::nccl;
use crate::plugin::{InitArguments, Plugin};
use crate::verb::{Outcome, load};
use mix::{Call, Program, Shape};
use timer::{Timer, approximate, now};

/// Time the callbacks of a profiler plugin.
///
/// Each thread has a communicator of its own and repeats the callbacks of one all-reduce over the network: API call,
/// launch, plan, collective, proxy operations with steps and states, kernel channels. Only what the plugin's
/// mask asks for is called, as by NCCL; set the mask by the plugin's own environment. The result is JSON; the same
/// with the empty plugin shows what calling a plugin costs at least.
///
/// For instruction counts: --no-timing --iterations N does nothing but N operations; run it under
/// callgrind with two N and divide the difference by the printed difference of callbacks.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The plugin's library.
    #[arg(value_name = "PLUGIN.so")]
    plugin: PathBuf,

    /// Call this table instead of the highest that there is.
    #[arg(long, value_name = "1-7", value_parser = Version::parse)]
    table: Option<Version>,

    /// Number of threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,

    /// How long the timed part takes, and the untimed one again.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,

    /// How many operations each thread does, instead of --seconds.
    #[arg(long)]
    iterations: Option<u64>,

    /// Only call, on one thread, and time nothing: for callgrind. Needs --iterations.
    #[arg(long, requires = "iterations", conflicts_with = "threads")]
    no_timing: bool,
}

#[derive(Clone, Copy)]
enum Length {
    /// This time for the timed part, and again for the untimed one.
    Time(Duration),
    Operations(u64),
}

/// The most samples of a thread: 64 MiB.
const MOST_SAMPLES: usize = 16 << 20;
const SHAPE: Shape = Shape { channels: 2, steps: 4, rank: 0, peer: 1 };
/// Operations before anything is measured: threads register, memory is touched, caches are warm.
const WARM_UP: u64 = 200;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    ensure!(arguments.seconds > 0.0 && arguments.seconds <= 3600.0, "--seconds must lie between 0 and 3600");
    let plugin = load(&arguments.plugin, arguments.table)?;
    if let (true, Some(operations)) = (arguments.no_timing, arguments.iterations) {
        let context = init(&plugin, 0, 1)?;
        let mut worker = Worker::new(&plugin, context, Length::Operations(operations));
        (0..operations).for_each(|_| worker.operation());
        plugin.finalize(context);
        println!("{operations} operations, {} callbacks", worker.program.calls.len() as u64 * operations);
        return Ok(Outcome::Well);
    }
    let time = Length::Time(Duration::from_secs_f64(arguments.seconds));
    let length = arguments.iterations.map_or(time, Length::Operations);
    let report = measure(&plugin, arguments.threads, length)?;
    println!("{report:#}");
    Ok(if nccl::lines().1 > 0 { Outcome::Wrong } else { Outcome::Well })
}

fn init(plugin: &Plugin, rank: u16, ranks: u16) -> anyhow::Result<u64> {
    let context = plugin.begin(&InitArguments {
        comm_id: 0x0bec_0bec_0bec_0bec,
        comm_name: Some(c"bench"),
        nodes: 1,
        ranks: ranks.into(),
        rank: rank.into(),
        mask: true,
        logger: true,
    });
    let (mask, version) = (nccl::mask_now(), plugin.version);
    ensure!(
        !Program::new(version, mask, SHAPE).calls.is_empty(),
        "the plugin's mask {mask:#x} asks for none of the events of the mix: is it switched off by its environment?"
    );
    Ok(context)
}

fn measure(plugin: &Plugin, threads: u16, length: Length) -> anyhow::Result<Value> {
    let timer = Timer::calibrate();
    let before_kib = resident_kib()?;
    let contexts = (0..threads).map(|rank| init(plugin, rank, threads)).collect::<anyhow::Result<Vec<u64>>>()?;
    let start = Barrier::new(contexts.len());
    let workers = thread::scope(|scope| {
        let mut running = Vec::new();
        for (number, context) in contexts.iter().enumerate() {
            let start = &start;
            let work = move || Worker::new(plugin, *context, length).measure(start);
            running.push(thread::Builder::new().name(format!("bench {number}")).spawn_scoped(scope, work)?);
        }
        let joined = running.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|worker| worker.map_err(|_| io::Error::other("a worker panicked"))).collect::<io::Result<Vec<_>>>()
    })?;
    let grown_kib = resident_kib()?.saturating_sub(before_kib);
    for context in contexts {
        plugin.finalize(context);
    }
    Ok(summary(plugin, timer, &workers, grown_kib))
}

/// Resident memory in KiB: private memory and pages of mapped files.
fn resident_kib() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    number.ok_or_else(|| io::Error::other("no VmRSS in /proc/self/status"))
}

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
    length: Length,
}

impl<'a> Worker<'a> {
    fn new(plugin: &'a Plugin, context: u64, length: Length) -> Self {
        let program = Program::new(plugin.version, nccl::mask_now(), SHAPE);
        Self { plugin, handles: vec![0; program.slots], program, context, length }
    }

    fn measure(mut self, start: &Barrier) -> Worked {
        let mut samples = self.sample_arrays();
        start.wait();
        (0..WARM_UP).for_each(|_| self.operation());
        start.wait();
        let timed = self.repeat(|worker| worker.timed_operation(&mut samples));
        let is_full = samples.iter().any(|array| array.len() == array.capacity());
        let samples_full = is_full && matches!(self.length, Length::Time(_));
        start.wait();
        let (operations, untimed) = self.repeat(|worker| {
            worker.operation();
            true
        });
        let calls = self.program.calls.len() as u64;
        let all_calls = calls * (operations + timed.0 + WARM_UP);
        Worked { samples, samples_full, calls: calls * operations, untimed, all_calls }
    }

    /// Repeats an operation until the length is reached or it returns that it cannot continue.
    fn repeat(&mut self, mut operation: impl FnMut(&mut Self) -> bool) -> (u64, Duration) {
        let begin = Instant::now();
        let mut done = 0;
        loop {
            let enough = match self.length {
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
        let most = MOST_SAMPLES / all;
        let operations = match self.length {
            Length::Operations(operations) => usize::try_from(operations).unwrap_or(most).min(most),
            // No callback is faster than about 5 ns.
            Length::Time(time) => (usize::try_from(time.as_nanos() / 5).unwrap_or(most) / all).min(most),
        };
        let array = |category| {
            let calls = self.program.calls.iter().filter(|call| call.category == category);
            let mut array = vec![1; (operations + 1) * calls.count()];
            array.clear();
            array
        };
        (0..self.program.categories.len()).map(array).collect()
    }

    #[inline]
    fn operation(&mut self) {
        for place in 0..self.program.calls.len() {
            let call = self.program.calls[place];
            self.call(call);
        }
    }

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

/// Times are in ns, the cost of the timer subtracted; `resident_growth_kib_per_thread` is the resident memory at the
/// end less that before init and the samples.
fn summary(plugin: &Plugin, timer: Timer, workers: &[Worked], grown_kib: u64) -> Value {
    let mask = nccl::mask_now();
    let mut all: Vec<u32> = Vec::new();
    let mut by_callback = Vec::new();
    for (category, name) in Program::new(plugin.version, mask, SHAPE).categories.iter().enumerate() {
        let mut samples: Vec<u32> =
            workers.iter().filter_map(|worker| worker.samples.get(category)).flatten().copied().collect();
        all.extend_from_slice(&samples);
        by_callback.push(quantiles(name, &mut samples, timer));
    }
    let rate = |worker: &Worked| approximate(worker.calls) / worker.untimed.as_secs_f64().max(1e-9);
    let threads = workers.len() as u64;
    let sample_bytes = workers.iter().flat_map(|worker| &worker.samples).map(Vec::capacity).sum::<usize>() * 4;
    json!({
        "file": plugin.path.display().to_string(),
        "plugin": plugin.name,
        "table": plugin.version.number(),
        "mask": mask,
        "threads": threads,
        "calls": workers.iter().map(|worker| worker.all_calls).sum::<u64>(),
        "samples_full": workers.iter().any(|worker| worker.samples_full),
        "timer_cost_ns": timer.cost_ns(),
        "overall": quantiles("all callbacks", &mut all, timer),
        "by_callback": by_callback,
        "calls_per_second": workers.iter().map(rate).sum::<f64>(),
        "untimed_ns_per_call": workers.iter().map(|worker| 1e9 / rate(worker)).sum::<f64>() / approximate(threads),
        "resident_growth_kib_per_thread": grown_kib.saturating_sub(sample_bytes as u64 / 1024) / threads,
        "late_log_lines": nccl::lines().1,
    })
}

fn quantiles(callback: &str, samples: &mut [u32], timer: Timer) -> Value {
    samples.sort_unstable();
    let at = |per_mille: usize| {
        let place = (samples.len() * per_mille / 1000).min(samples.len().saturating_sub(1));
        samples.get(place).map(|ticks| timer.ns(*ticks))
    };
    json!({
        "callback": callback,
        "samples": samples.len(),
        "p50_ns": at(500),
        "p99_ns": at(990),
        "p999_ns": at(999),
        "max_ns": at(1000),
    })
}
