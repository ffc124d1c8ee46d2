//! Runs a function over many parts with several threads, within a memory budget. Also finds NCCL's dumps in a job's
//! directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::fs::Metadata;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use crate::error::Error;
use crate::part::manifest::{Manifest, Pools};
use journal::host;
use journal::part::{DUMPS, Dump, ProcessInfo};
use parking_lot::{Condvar, Mutex};
use rayon::ThreadPoolBuilder;
use regular_files::MOST_DESCRIPTION_BYTES;
use topology::{Graph, System};

/// Least budget, whatever the system reports as free.
const LEAST_BUDGET_BYTES: u64 = 256 << 20;

/// The number of threads, and the memory budget that all of them share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workers {
    threads: usize,
    budget_bytes: u64,
}

impl Workers {
    /// `None` means one thread per core. The budget is half of the memory that is free now.
    pub(crate) fn new(threads: Option<NonZeroUsize>) -> Self {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            threads: threads.unwrap_or_else(cores).get(),
            budget_bytes: (free_memory_bytes() / 2).max(LEAST_BUDGET_BYTES),
        }
    }

    /// Applies `work` to each number below `weights.len()`; results are in order. The heaviest start first, and wait
    /// until their weight (bytes of memory) fits into the budget beside the running ones; a heavier one runs alone.
    pub(crate) fn map<T: Send + Sync>(&self, weights: &[u64], work: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        nccl_events::sort::sort_by_key(&mut order, |&at| std::cmp::Reverse(weights.get(at).copied()));
        let budget = Budget::new(self.budget_bytes);
        let threads = self.threads.min(order.len());
        let made: Vec<OnceLock<T>> = weights.iter().map(|_| OnceLock::new()).collect();
        let work = |at: usize| {
            let _share = budget.take(weights.get(at).copied().unwrap_or(0));
            if let Some(slot) = made.get(at) {
                let _made_once = slot.set(work(at));
            }
        };
        // All threads have ended on return: the plugin's code may be unloaded soon after.
        let done = ThreadPoolBuilder::new().num_threads(threads).build_scoped(
            |thread| host::without_signals(|| thread.run()),
            |pool| {
                pool.scope_fifo(|scope| {
                    let work = &work;
                    order.iter().for_each(|&at| scope.spawn_fifo(move |_| work(at)));
                });
            },
        );
        if done.is_err() {
            // The system refuses threads.
            order.iter().filter(|&&at| made.get(at).is_some_and(|cell| cell.get().is_none())).for_each(|&at| work(at));
        }
        made.into_iter().filter_map(OnceLock::into_inner).collect()
    }

    /// The manifests of parts, in order; locations with lost event files have no events.
    pub(crate) fn read_manifests(&self, parts: &[PathBuf]) -> Vec<Result<Manifest, Error>> {
        let pools = Pools::default();
        let read = |at: usize| {
            let mut manifest = Manifest::read_with_events(parts.get(at).map(PathBuf::as_path).unwrap_or("".as_ref()))?;
            manifest.share(&pools);
            Ok(manifest)
        };
        self.map(&vec![0; parts.len()], read)
    }
}

struct Budget {
    bytes: u64,
    used: Mutex<u64>,
    freed: Condvar,
}

/// A share of a budget; released when dropped.
struct BudgetShare<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Budget {
    fn new(bytes: u64) -> Self {
        Self { bytes, used: Mutex::new(0), freed: Condvar::new() }
    }

    /// Waits until that many bytes are free. A request above the whole budget takes all of it.
    fn take(&self, bytes: u64) -> BudgetShare<'_> {
        let bytes = bytes.min(self.bytes);
        let mut used = self.used.lock();
        let is_full = |used: &mut u64| used.saturating_add(bytes) > self.bytes;
        self.freed.wait_while(&mut used, is_full);
        *used += bytes;
        BudgetShare { budget: self, bytes }
    }
}

impl Drop for BudgetShare<'_> {
    fn drop(&mut self) {
        *self.budget.used.lock() -= self.bytes;
        self.budget.freed.notify_all();
    }
}

/// Memory available without taking it from others: the kernel's estimate, and the job's control group (Slurm's, say).
fn free_memory_bytes() -> u64 {
    let free = fs::read_to_string("/proc/meminfo").unwrap_or_default().lines().find_map(|line| {
        let number = line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?;
        number.trim().parse::<u64>().ok()
    });
    let number =
        |file: &str| -> Option<u64> { fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse().ok() };
    let group_limit = number("memory.max").map(|most| {
        let used = number("memory.current").unwrap_or(0);
        most.saturating_sub(used)
    });
    let free = free.map_or(0, |kibibytes| kibibytes.saturating_mul(1024));
    group_limit.map_or(free, |limit| limit.min(free))
}

/// What one process dumped for one of its communicators.
#[derive(Debug, Default)]
pub(crate) struct CommunicatorDump {
    /// The key of the process; 0 if it is unknown.
    pub(crate) key: u64,
    /// The file, for messages.
    pub(crate) file: String,
    pub(crate) system: System,
    pub(crate) graphs: Vec<Graph>,
}

/// The dumps in a job's directory, and those that the user asked for.
#[derive(Debug, Default)]
pub(crate) struct Dumps {
    pub(crate) all: Vec<CommunicatorDump>,
    /// A line for each file that cannot be used.
    pub(crate) unused: Vec<(Dump, String)>,
}

/// NCCL may dump so long before it calls the first init.
const BEFORE_INIT: Duration = Duration::from_mins(1);

/// The paths of a system and of graphs that belong together.
type DumpPaths = [Option<PathBuf>; 2];

impl Dumps {
    /// Reads the dumps of a job. A dump that cannot be used is counted, not an error.
    pub(crate) fn read<'a>(out: &Path, processes: impl Iterator<Item = &'a ProcessInfo>) -> Self {
        let mut pairs: BTreeMap<(u64, u32), DumpPaths> = BTreeMap::new();
        for entry in fs::read_dir(out.join(DUMPS)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if let Some((dump, key, number)) = name.to_str().and_then(Dump::parse_file_name) {
                let [system, graphs] = pairs.entry((key, number)).or_default();
                let place = if dump == Dump::System { system } else { graphs };
                // NCCL's file has the modes that the umask gives.
                host::seal_alone(&entry.path());
                *place = Some(entry.path());
            }
        }
        let mut dumps = Self::default();
        for ((key, _), pair) in pairs {
            dumps.add(key, &pair);
        }
        let mut user_dumps: BTreeSet<[&str; 2]> = BTreeSet::new();
        let mut began_ns = u64::MAX;
        for info in processes {
            user_dumps.insert([&info.system_dump, &info.graphs_dump]);
            began_ns = began_ns.min(info.session_start_realtime_ns);
        }
        for paths in user_dumps {
            let [system, graphs] = paths.map(Path::new);
            let pair = [(Dump::System, system), (Dump::Graphs, graphs)].map(|dump| dumps.dump_of_user(dump, began_ns));
            dumps.add(0, &pair);
        }
        dumps
    }

    /// The user's file, unless it is from before the job.
    fn dump_of_user(&mut self, (dump, path): (Dump, &Path), began_ns: u64) -> Option<PathBuf> {
        let written = path.metadata().ok().filter(Metadata::is_file)?.modified().ok()?;
        let written_ns = written.duration_since(UNIX_EPOCH).map_or(0, |duration| duration.as_nanos());
        if written_ns + BEFORE_INIT.as_nanos() < u128::from(began_ns) {
            self.unused.push((dump, format!("{}: older than the job", path.display())));
            return None;
        }
        Some(path.to_owned())
    }

    fn add(&mut self, key: u64, pair: &DumpPaths) {
        let [system, graphs] = pair;
        let mut dumped = CommunicatorDump { key, ..CommunicatorDump::default() };
        let system = (Dump::System, system.as_deref());
        if let Some(system) = self.parse(&mut dumped, system, |text, _| System::parse(text)) {
            dumped.system = system;
        }
        let parse = |text: &str, dumped: &CommunicatorDump| Graph::parse_all(text, &dumped.system);
        if let Some(graphs) = self.parse(&mut dumped, (Dump::Graphs, graphs.as_deref()), parse) {
            dumped.graphs = graphs;
        }
        if !dumped.system.gpus.is_empty() || !dumped.graphs.is_empty() {
            self.all.push(dumped);
        }
    }

    fn parse<T>(
        &mut self,
        dumped: &mut CommunicatorDump,
        (dump, path): (Dump, Option<&Path>),
        parse: impl FnOnce(&str, &CommunicatorDump) -> Result<T, topology::Error>,
    ) -> Option<T> {
        let path = path?;
        dumped.file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = regular_files::read_to_string(path, MOST_DESCRIPTION_BYTES).map_err(|error| error.to_string());
        match text.and_then(|text| parse(&text, dumped).map_err(|error| error.to_string())) {
            Ok(parsed) => Some(parsed),
            Err(reason) => {
                self.unused.push((dump, format!("{}: {reason}", dumped.file)));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    fn workers(threads: usize, budget_bytes: u64) -> Workers {
        Workers { threads, budget_bytes }
    }

    #[test]
    fn the_budget_is_kept_and_what_does_not_fit_at_all_is_done_alone() {
        let weights = [50, 40, 30, 30, 70, 1000, 10, 10];
        let under_way = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        let heavy_alone = AtomicU64::new(0);
        let _done = workers(8, 100).map(&weights, |at| {
            let weight = weights[at].min(100);
            let now = under_way.fetch_add(weight, Ordering::SeqCst) + weight;
            most.fetch_max(now, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(10));
            if weight == 100 {
                heavy_alone.store(under_way.load(Ordering::SeqCst), Ordering::SeqCst);
            }
            under_way.fetch_sub(weight, Ordering::SeqCst);
        });
        let most = most.into_inner();
        assert!(most <= 100 && most > 70, "{most} at once");
        assert_eq!(heavy_alone.into_inner(), 100);
    }
}
