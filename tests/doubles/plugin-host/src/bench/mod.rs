//! `plugin-host bench`: times the callbacks of a profiler plugin.
//!
//! The loops neither allocate nor lock: descriptors, and the arrays for samples, were made and touched before.

pub(crate) mod mix;
mod nvtx;
mod pace;

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, anyhow, ensure};
use serde_json::{Value, json};

use crate::interface::Version;
use crate::nccl;
use crate::plugin::{InitArguments, Outcome, Plugin, load};
use mix::{Call, Program, Shape};
use nvtx::Ranges;
use pace::{Disturbances, Work};

/// Time the callbacks of a profiler plugin.
///
/// Each thread has a communicator of its own and repeats the callbacks of one all-reduce over the network. Only what
/// the plugin's mask asks for is called, as by NCCL; set the mask by the plugin's own environment. The result is JSON.
///
/// For instruction counts: --no-timing does nothing but the operations; run it under callgrind with two numbers of
/// --iterations and divide the difference by the printed difference of callbacks.
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

    /// How many operations each thread times, and repeats without timing.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,

    /// Work this long between timed operations, on memory that is larger than the caches.
    #[arg(long, default_value_t = 0, value_name = "MICROSECONDS")]
    pace: u64,

    /// Only call, on one thread, and time nothing: for callgrind.
    #[arg(long, conflicts_with_all = ["threads", "pace"])]
    no_timing: bool,

    /// Time NVTX's push and pop, too; with --no-timing, nothing else. Without RANGE, with a registered name.
    #[arg(long, value_name = "RANGE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    nvtx: Option<CString>,
}

const SHAPE: Shape = Shape { channels: 2, steps: 4, rank: 0, peer: 1 };
/// Operations before anything is measured: threads register, memory is touched, caches are warm.
const WARM_UP: u32 = 200;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let plugin = load(&arguments.plugin, arguments.table)?;
    let operations = arguments.iterations;
    let ranges = arguments.nvtx.clone().map(|name| Ranges::begin(&plugin.library, name)).transpose()?;
    if arguments.no_timing {
        let mut worker = Worker::begin(&plugin, 0, 1)?;
        let calls = match &ranges {
            Some(ranges) => {
                (0..operations).for_each(|_| ranges.push_and_pop());
                2
            }
            None => {
                worker.operations(operations);
                worker.program.calls.len() as u64
            }
        };
        plugin.finalize(worker.context);
        println!("{operations} operations, {} callbacks", calls * u64::from(operations));
        return Ok(Outcome::Well);
    }
    let mut report = measure(&plugin, arguments)?;
    if let Some(ranges) = &ranges {
        report["nvtx"] = measure_ranges(&plugin, ranges, operations)?;
    }
    println!("{report:#}");
    Ok(if nccl::late_lines() > 0 { Outcome::Wrong } else { Outcome::Well })
}

fn measure(plugin: &Plugin, arguments: &Arguments) -> anyhow::Result<Value> {
    let (threads, operations) = (arguments.threads, arguments.iterations);
    let pace = Duration::from_micros(arguments.pace);
    let timer_ns = timer_ns();
    let works: Vec<Work> = (0..threads).map(|_| Work::new(pace)).collect();
    let before_kib = resident_kib()?;
    let workers =
        (0..threads).map(|rank| Worker::begin(plugin, rank, threads)).collect::<anyhow::Result<Vec<Worker<'_>>>>()?;
    let contexts: Vec<u64> = workers.iter().map(|worker| worker.context).collect();
    let categories = workers.first().map(|worker| worker.program.categories.clone()).unwrap_or_default();
    let start = Barrier::new(workers.len());
    let measured = thread::scope(|scope| {
        let start = &start;
        // All are spawned before any is joined: they wait for each other.
        let running: Vec<_> = workers
            .into_iter()
            .zip(works)
            .map(|(worker, work)| scope.spawn(move || worker.measure(operations, work, start)))
            .collect();
        let joined = running.into_iter().map(|worker| worker.join().map_err(|_| anyhow!("a worker panicked")));
        joined.collect::<anyhow::Result<Vec<Measured>>>()
    })?;
    let grown_kib = resident_kib()?.saturating_sub(before_kib);
    contexts.into_iter().for_each(|context| {
        plugin.finalize(context);
    });
    let samples_kib = measured.iter().flat_map(|own| &own.samples).map(Vec::capacity).sum::<usize>() as u64 / 256;
    let rate = |own: &Measured| f64::from(own.calls) / own.untimed.as_secs_f64().max(1e-9);
    let mut all: Vec<u32> = Vec::new();
    let mut by_callback = Vec::new();
    for (category, name) in categories.iter().enumerate() {
        let mut samples: Vec<u32> =
            measured.iter().filter_map(|own| own.samples.get(category)).flatten().copied().collect();
        all.extend_from_slice(&samples);
        by_callback.push(quantiles(name, &mut samples, timer_ns));
    }
    Ok(json!({
        "file": plugin.path.display().to_string(),
        "plugin": plugin.name,
        "table": plugin.version.number(),
        "mask": nccl::mask_now(),
        "threads": threads,
        "pace_us": arguments.pace,
        "timer_cost_ns": timer_ns,
        "page_faults": measured.iter().map(|own| own.disturbances.page_faults).sum::<i64>(),
        "preemptions": measured.iter().map(|own| own.disturbances.preemptions).sum::<i64>(),
        "overall": quantiles("all callbacks", &mut all, timer_ns),
        "by_callback": by_callback,
        "calls_per_second": measured.iter().map(rate).sum::<f64>(),
        "untimed_ns_per_call": measured.iter().map(|own| 1e9 / rate(own)).sum::<f64>() / f64::from(threads),
        "resident_growth_kib_per_thread": grown_kib.saturating_sub(samples_kib) / u64::from(threads),
        "late_log_lines": nccl::late_lines(),
    }))
}

fn measure_ranges(plugin: &Plugin, ranges: &Ranges, operations: u32) -> anyhow::Result<Value> {
    let worker = Worker::begin(plugin, 0, 1)?;
    let timer_ns = timer_ns();
    let [mut pushes, mut pops] = [vec![1; operations as usize], vec![1; operations as usize]];
    (0..WARM_UP).for_each(|_| ranges.push_and_pop());
    for (push, pop) in pushes.iter_mut().zip(&mut pops) {
        let begin = Instant::now();
        ranges.push();
        *push = since(begin);
        let begin = Instant::now();
        ranges.pop();
        *pop = since(begin);
    }
    plugin.finalize(worker.context);
    Ok(json!([quantiles("push", &mut pushes, timer_ns), quantiles("pop", &mut pops, timer_ns)]))
}

/// Resident memory in KiB: private memory and pages of mapped files.
fn resident_kib() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    number.context("no VmRSS in /proc/self/status")
}

/// What a thread measured: samples in ns, one list for each category, and how long so many calls took untimed.
struct Measured {
    samples: Vec<Vec<u32>>,
    calls: u32,
    /// During the timed part.
    disturbances: Disturbances,
    untimed: Duration,
}

struct Worker<'a> {
    plugin: &'a Plugin,
    program: Program,
    handles: Vec<u64>,
    context: u64,
}

impl<'a> Worker<'a> {
    /// Makes the communicator of a rank.
    fn begin(plugin: &'a Plugin, rank: u16, ranks: u16) -> anyhow::Result<Self> {
        let context = plugin.begin(&InitArguments {
            comm_id: 0x0bec_0bec_0bec_0bec,
            comm_name: Some(c"bench"),
            ranks: ranks.into(),
            rank: rank.into(),
            ..InitArguments::default()
        });
        let mask = nccl::mask_now();
        let program = Program::new(plugin.version, mask, SHAPE);
        ensure!(
            !program.calls.is_empty(),
            "the plugin's mask {mask:#x} asks for none of the events of the mix: is it switched off by its environment?"
        );
        Ok(Self { plugin, handles: vec![0; program.slots], program, context })
    }

    fn measure(mut self, operations: u32, mut work: Work, start: &Barrier) -> Measured {
        let mut samples: Vec<Vec<u32>> = (0..self.program.categories.len())
            .map(|category| {
                let calls = self.program.calls.iter().filter(|call| call.category == category).count();
                // Touched, so that the loop has no page fault of its own.
                let mut array = vec![1; operations as usize * calls];
                array.clear();
                array
            })
            .collect();
        self.operations(WARM_UP);
        start.wait();
        let before = Disturbances::now();
        for _ in 0..operations {
            work.run();
            self.timed_operation(&mut samples);
        }
        let disturbances = Disturbances::now().since(before);
        start.wait();
        let begin = Instant::now();
        self.operations(operations);
        let untimed = begin.elapsed();
        let calls = u32::try_from(self.program.calls.len()).unwrap_or(0).saturating_mul(operations);
        Measured { samples, calls, disturbances, untimed }
    }

    #[inline]
    fn operations(&mut self, operations: u32) {
        for _ in 0..operations {
            for place in 0..self.program.calls.len() {
                let call = self.program.calls[place];
                self.call(call);
            }
        }
    }

    #[inline]
    fn timed_operation(&mut self, samples: &mut [Vec<u32>]) {
        for place in 0..self.program.calls.len() {
            let call = self.program.calls[place];
            let begin = Instant::now();
            self.call(call);
            samples[call.category].push(since(begin));
        }
    }

    #[inline]
    fn call(&mut self, call: Call) {
        self.program.call(self.plugin, self.context, &mut self.handles, call);
    }
}

fn since(begin: Instant) -> u32 {
    u32::try_from(begin.elapsed().as_nanos()).unwrap_or(u32::MAX)
}

/// The median time between two looks at the clock with nothing between them.
fn timer_ns() -> u32 {
    let mut costs: Vec<u32> = (0..20_000).map(|_| since(Instant::now())).collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}

/// Of times in ns, the cost of the timer subtracted.
fn quantiles(callback: &str, samples: &mut [u32], timer_ns: u32) -> Value {
    samples.sort_unstable();
    let at = |per_mille: usize| {
        let place = (samples.len() * per_mille / 1000).min(samples.len().saturating_sub(1));
        samples.get(place).map(|ns| ns.saturating_sub(timer_ns))
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
