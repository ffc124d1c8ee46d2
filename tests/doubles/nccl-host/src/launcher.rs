//! The process the user starts: spawns the workers, enforces the time limit, reports the result.

use crate::options::Options;
use crate::output::Output;
use crate::pattern;
use crate::rendezvous::{Outcome, Point, Rendezvous};
use crate::{exact, ops};
use anyhow::Context as _;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

pub(crate) const EXIT_WRONG: u8 = 1;
/// Usage, NCCL or CUDA error, or a worker that crashed.
pub(crate) const EXIT_ERROR: u8 = 2;
const EXIT_KILLED: u8 = 3;
const EXIT_TIMEOUT: u8 = 124;

/// How long the other workers may take to end once one has failed.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    validate(options)?;
    let dir = tempfile::Builder::new()
        .prefix("nccl-host-")
        .tempdir()
        .context("cannot create a temporary directory (TMPDIR)")?;
    let started = Instant::now();
    let mut job = Job { options, rendezvous: Rendezvous::at(dir.path()), workers: Vec::new(), killed: false };
    let output = Output::new()?;
    for process in 0..options.procs {
        let mut command = command(options, process, dir.path())?;
        output.attach_to(&mut command)?;
        let child = command.spawn().context("cannot start a worker process")?;
        job.workers.push(Worker { process, child, status: None });
    }
    let ended = job.watch(started)?;
    output.end();
    Ok(job.report(ended, started.elapsed()))
}

fn validate(options: &Options) -> anyhow::Result<()> {
    ops::check_names(&options.ops)?;
    let ranks = options.world_ranks();
    anyhow::ensure!(ranks <= pattern::MAX_RANKS, "{ranks} ranks are too many: at most {}", pattern::MAX_RANKS);
    anyhow::ensure!(
        !options.init_all || options.procs == 1,
        "--init-all needs all ranks in one process: leave --procs at 1"
    );
    for (option, rank) in [("--skip-last", options.skip_last), ("--kill-rank", options.kill_rank)] {
        if let Some(rank) = rank {
            anyhow::ensure!(usize::from(rank) < ranks, "{option} {rank}: the ranks are 0 to {}", ranks - 1);
        }
    }
    anyhow::ensure!(
        options.skip_last.is_none() || options.rounds > 0,
        "--skip-last needs a last round: give --rounds a number above 0"
    );
    anyhow::ensure!(
        options.slow_pair.is_none() || options.threads == 1,
        "--slow-pair needs --threads 1: a connection knows the process that it leads to"
    );
    Ok(())
}

fn command(options: &Options, process: u16, dir: &Path) -> anyhow::Result<Command> {
    let me = std::env::current_exe().context("cannot find the own program")?;
    let mut command = Command::new(&me);
    command.args(std::env::args_os().skip(1)).args(["--worker", &process.to_string()]).arg("--rendezvous").arg(dir);
    let mut set_where_unset = |variables: &[(&str, &str)]| {
        for (name, value) in variables {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
    };
    // The settings for exact counts come last: they win over the stand-in's.
    if options.fake_gpu.is_some() {
        set_where_unset(c_double::NCCL_ON_FAKE_GPU);
    }
    if options.exact {
        set_where_unset(exact::EXACT);
    }
    if let Some(path) = &options.fake_gpu {
        command.env("LD_PRELOAD", preload(path.as_deref(), &me)?);
    }
    if let Some(last) = options.host_clocks.len().checked_sub(1) {
        let hosts = last + 1;
        let host = (usize::from(process) * hosts / usize::from(options.procs)).min(last);
        if let Some(clock) = options.host_clocks.get(host) {
            let name = format!("nccl-host-{host}");
            command.env("NCCL_OTF2_TEST_CLOCK", format!("{clock},{name}"));
            command.env("NCCL_HOSTID", name);
        }
    }
    if let Some(pair) = &options.slow_pair {
        command.env("NCCL_NET_PLUGIN", "probe").env("NCCL_NET", "Probe");
        command.env("NET_PROBE_SLOW", pair).env("NET_PROBE_RANK", process.to_string());
    }
    for rank in options.ranks_of(process) {
        command.envs(options.program.iter().flat_map(|programs| programs.variables(rank)));
    }
    if options.launcher {
        command.env("RANK", process.to_string()).env("WORLD_SIZE", options.procs.to_string());
    }
    if options.hosts {
        command.env("NCCL_HOSTID", format!("nccl-host-{process}"));
    }
    c_double::end_with_parent(&mut command);
    Ok(command)
}

/// The stand-in first, then whatever else the user preloads.
fn preload(given: Option<&Path>, me: &Path) -> anyhow::Result<OsString> {
    let path = given.map_or_else(|| me.with_file_name("libfakegpu.so"), Path::to_owned);
    let path: PathBuf = path.canonicalize().with_context(|| {
        format!("--fake-gpu: no {} (build it with `cargo build -p fake-gpu`, or give its path)", path.display())
    })?;
    let mut value = path.into_os_string();
    if let Some(more) = std::env::var_os("LD_PRELOAD").filter(|more| !more.is_empty()) {
        value.push(":");
        value.push(more);
    }
    Ok(value)
}

struct Worker {
    process: u16,
    child: Child,
    status: Option<ExitStatus>,
}

impl Worker {
    fn poll(&mut self) -> anyhow::Result<()> {
        if self.status.is_none() {
            self.status = self.child.try_wait().context("cannot wait for a worker process")?;
        }
        Ok(())
    }

    fn kill(&mut self) {
        if self.status.is_none() {
            // It may have ended since; then there is nothing left to kill.
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Normally,
    Failed,
    TimedOut,
    Killed,
}

struct Job<'a> {
    options: &'a Options,
    rendezvous: Rendezvous,
    workers: Vec<Worker>,
    killed: bool,
}

impl Job<'_> {
    fn watch(&mut self, started: Instant) -> anyhow::Result<Ending> {
        let limit = (self.options.timeout > 0).then(|| Duration::from_secs(self.options.timeout));
        let mut all_ready: Option<Instant> = None;
        let mut first_failure: Option<Instant> = None;
        loop {
            for worker in &mut self.workers {
                worker.poll()?;
            }
            let failed = self.workers.iter().any(|w| w.status.is_some_and(|s| !s.success()));
            if self.workers.iter().all(|w| w.status.is_some()) {
                return Ok(match (self.killed, failed) {
                    (true, _) => Ending::Killed,
                    (false, true) => Ending::Failed,
                    (false, false) => Ending::Normally,
                });
            }
            if failed && !self.killed && self.options.program.is_none() {
                let since = *first_failure.get_or_insert_with(Instant::now);
                if since.elapsed() > GRACE {
                    self.kill_all();
                    return Ok(Ending::Failed);
                }
            }
            if all_ready.is_none() && self.workers.iter().all(|w| self.rendezvous.has_reached(Point::Ready, w.process))
            {
                all_ready = Some(Instant::now());
            }
            self.kill_when_due(all_ready);
            if limit.is_some_and(|limit| started.elapsed() > limit) {
                self.report_late_processes();
                self.kill_all();
                return Ok(if self.killed { Ending::Killed } else { Ending::TimedOut });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill_when_due(&mut self, all_ready: Option<Instant>) {
        let (Some(after), Some(ready)) = (self.options.kill_after, all_ready) else {
            return;
        };
        if self.killed || ready.elapsed().as_secs_f64() < after {
            return;
        }
        self.killed = true;
        match self.options.kill_rank {
            None => self.kill_all(),
            Some(rank) => {
                let process = rank / self.options.threads;
                for worker in self.workers.iter_mut().filter(|w| w.process == process) {
                    worker.kill();
                }
            }
        }
    }

    fn kill_all(&mut self) {
        for worker in &mut self.workers {
            worker.kill();
        }
    }

    fn report_late_processes(&self) {
        for worker in self.workers.iter().filter(|w| w.status.is_none()) {
            let ranks = self.options.ranks_of(worker.process);
            eprintln!(
                "nccl-host: process {} (pid {}, ranks {} to {}) is not done after {} s (--timeout)",
                worker.process,
                worker.child.id(),
                ranks.start,
                ranks.end - 1,
                self.options.timeout
            );
        }
    }

    fn report(&self, ended: Ending, took: Duration) -> ExitCode {
        for worker in &self.workers {
            if let (Some(signal), Ending::Failed) = (worker.status.and_then(|s| s.signal()), ended) {
                eprintln!("nccl-host: process {} ended by signal {signal}", worker.process);
            }
        }
        let outcomes: Vec<Outcome> = self.workers.iter().filter_map(|w| self.rendezvous.outcome(w.process)).collect();
        let sum = |of: fn(&Outcome) -> u64| -> u64 { outcomes.iter().map(of).sum() };
        let wrong = sum(|o| o.results_wrong);
        // A rank whose program lets its process exit has none.
        let whole = outcomes.len() == self.workers.len() || self.options.program.is_some();
        let nccl = match outcomes.first() {
            Some(o) => format!("NCCL {} on {}", o.nccl_version, o.device),
            None => "NCCL".to_owned(),
        };
        let result = match ended {
            Ending::Killed => "killed as asked".to_owned(),
            Ending::TimedOut => "killed at the time limit".to_owned(),
            _ if !whole => "FAILED".to_owned(),
            _ => format!("{} calls, {} results checked, {wrong} wrong", sum(|o| o.calls), sum(|o| o.results_checked)),
        };
        println!(
            "nccl-host: {nccl}, {} ranks ({} processes × {} threads), {result}, {:.1} s",
            self.options.world_ranks(),
            self.options.procs,
            self.options.threads,
            took.as_secs_f64(),
        );
        let code = match ended {
            Ending::Killed => EXIT_KILLED,
            Ending::TimedOut => EXIT_TIMEOUT,
            _ if wrong > 0 => EXIT_WRONG,
            Ending::Failed => EXIT_ERROR,
            Ending::Normally if !whole => EXIT_ERROR,
            Ending::Normally => 0,
        };
        ExitCode::from(code)
    }
}
