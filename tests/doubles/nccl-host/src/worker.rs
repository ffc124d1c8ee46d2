//! One worker process: a thread per rank.

use crate::call_log::CallLog;
use crate::calls::Call;
use crate::cuda::{Buffer, Cuda, Device};
use crate::launcher::EXIT_WRONG;
use crate::nccl::{CommOptions, Communicator, Nccl, Reduction, UniqueId, comm_init_all};
use crate::options::{End, Options};
use crate::program::{Program, Programs};
use crate::ranges::{self, Ranges};
use crate::rank::{Rank, Shared, Tally};
use crate::rendezvous::{Outcome, Point, Rendezvous};
use crate::{exact, ops};
use anyhow::Context as _;
use serde_json::json;
use std::process::ExitCode;
use std::sync::{Barrier, mpsc};
use std::time::Duration;

/// What the id of the communicator of all ranks is called.
const WORLD: &str = "world";

pub(crate) fn run(options: &Options, process: u16) -> anyhow::Result<ExitCode> {
    let dir = options.rendezvous.as_deref().context("--worker needs --rendezvous")?;
    let meeting = Rendezvous::at(dir);
    // They live as long as the process: NCCL's threads and CUDA's may outlive every scope here.
    let mut cuda = Cuda::find(options.cudart.as_deref())?;
    let devices = cuda.device_count()?;
    cuda.keeps_memory = !cuda.is_fake && usize::from(options.threads) > devices;
    let cuda: &'static Cuda = Box::leak(Box::new(cuda));
    let nccl: &'static Nccl = Box::leak(Box::new(Nccl::load(&options.lib)?));
    let version = nccl.version()?;
    let shared = Shared {
        nccl,
        version,
        log: CallLog::create(options.log.as_deref(), process)?,
        ranges: Ranges::new(options.ranges),
        exact: exact::in_force(|name| std::env::var(name).ok()),
        count: usize::try_from(options.count)?,
        iterations: options.iterations,
        pause: Duration::from_millis(options.pause),
    };
    let ranks = options.ranks_of(process);
    shared.log.write("start", || {
        json!({
            "program": env!("CARGO_PKG_NAME"),
            "version": env!("CARGO_PKG_VERSION"),
            "nccl_version": version.to_string(),
            "nccl_version_code": version.0,
            "process": process,
            "processes": options.procs,
            "ranks": ranks.clone().collect::<Vec<_>>(),
            "world_ranks": options.world_ranks(),
            "fake_gpu": cuda.is_fake,
            "exact": shared.exact,
            "allgatherv": std::env::var("NCCL_ALLGATHERV_ENABLE").ok(),
        })
    })?;
    let job = Process {
        options: options.clone(),
        process,
        meeting,
        cuda,
        devices,
        shared: Box::leak(Box::new(shared)),
        gate: Barrier::new(ranks.len()),
    };
    let job: &'static Process = Box::leak(Box::new(job));
    job.run_ranks()
}

struct Process {
    options: Options,
    process: u16,
    meeting: Rendezvous,
    cuda: &'static Cuda,
    devices: usize,
    shared: &'static Shared,
    /// Where the ranks of the process wait for each other.
    gate: Barrier,
}

impl Process {
    fn run_ranks(&'static self) -> anyhow::Result<ExitCode> {
        let ranks = self.options.ranks_of(self.process);
        self.cuda.set_device(self.device_of(ranks.start))?;
        let mut starts = self.starts()?.into_iter();
        let (results, done) = mpsc::channel();
        for rank in ranks.clone() {
            let start = starts.next().context("fewer communicators than ranks")?;
            let results = results.clone();
            std::thread::Builder::new()
                .name(format!("rank{rank}"))
                .spawn(move || {
                    let result = self.run_rank(rank, start);
                    // The receiver is gone only when another rank has failed already.
                    let _ = results.send(result);
                })
                .context("cannot start a thread")?;
        }
        drop(results);
        let mut total = Tally::default();
        for _ in ranks {
            // On an error the process ends without waiting for the other ranks: they may hang for ever.
            total += done.recv().context("a rank panicked")??;
        }
        self.finish(total)
    }

    fn finish(&self, total: Tally) -> anyhow::Result<ExitCode> {
        let ok = total.results_wrong == 0;
        self.shared.log.write("end", || {
            json!({
                "calls": total.calls,
                "results_checked": total.results_checked,
                "results_wrong": total.results_wrong,
                "proxy_ops": self.shared.exact.then_some(total.proxy_ops),
                "others": c_double::all_counted(),
                "ok": ok,
            })
        })?;
        let device = if self.cuda.is_fake {
            "the GPU stand-in".to_owned()
        } else {
            format!("{} GPUs ({})", self.devices, self.cuda.origin)
        };
        self.meeting.put_outcome(
            self.process,
            &Outcome {
                nccl_version: self.shared.version.to_string(),
                device,
                calls: total.calls,
                results_checked: total.results_checked,
                results_wrong: total.results_wrong,
            },
        )?;
        Ok(if ok { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WRONG) })
    }

    fn device_of(&self, rank: usize) -> usize {
        rank % self.devices
    }

    /// What each rank of this process needs to get its communicator.
    fn starts(&'static self) -> anyhow::Result<Vec<Start>> {
        let ranks = self.options.ranks_of(self.process);
        if let Some(programs) = &self.options.program {
            return Ok(ranks.map(|_| Start::Program(programs)).collect());
        }
        if self.options.init_all {
            let comms = comm_init_all(self.shared.nccl, ranks.len()).with_context(|| self.usual_reason())?;
            return Ok(comms.into_iter().map(Start::Ready).collect());
        }
        let id = if ranks.start == 0 {
            let id = self.shared.nccl.unique_id()?;
            self.meeting.put_id(WORLD, &id)?;
            id
        } else {
            self.meeting.wait_for_id(WORLD)
        };
        Ok(ranks.map(|_| Start::Join(id)).collect())
    }

    fn usual_reason(&self) -> String {
        let (ranks, devices) = (self.options.world_ranks(), self.devices);
        if ranks > devices {
            format!(
                "{ranks} ranks on {devices} GPUs: NCCL refuses several ranks on one GPU, use at most {devices}; or, \
                 from 2.30 on, set NCCL_MULTI_RANK_GPU_ENABLE=1, or give each a process (--procs) and --hosts"
            )
        } else {
            format!("cannot create the communicator of {ranks} ranks")
        }
    }

    fn run_rank(&'static self, rank: usize, start: Start) -> anyhow::Result<Tally> {
        let device = Device { cuda: self.cuda, number: self.device_of(rank) };
        // Also makes the device this thread's, which NCCL needs from here on.
        let stream = device.stream()?;
        let world = match start {
            Start::Program(all) => {
                let program = Program { all, rank, nccl: self.shared.nccl, meeting: &self.meeting };
                return program.run(device).map(|()| Tally::default());
            }
            Start::Ready(comm) => comm,
            Start::Join(id) => {
                let late = self.options.late_init.as_ref().filter(|(late, _)| *late == rank);
                while late.is_some_and(|(_, path)| !path.exists()) {
                    std::thread::sleep(Duration::from_millis(10));
                }
                let wanted = CommOptions { name: self.options.name.as_deref(), nonblocking: self.options.nonblocking };
                let ranks = self.options.world_ranks();
                let made = || Communicator::init_rank(self.shared.nccl, id, rank, ranks, wanted);
                self.shared.ranges.within(ranges::SETUP, None, made).with_context(|| self.usual_reason())?
            }
        };
        let me = Rank::new(self.shared, &world, &stream);
        me.log_communicator(&world)?;
        if self.gate.wait().is_leader() {
            self.meeting.reach(Point::Ready, self.process)?;
        }
        self.rounds(&me)?;
        let further = match self.options.end {
            End::Order => Some(ops::further_communicators(&me)?),
            _ => None,
        };
        let tally = me.tally();
        println!(
            "rank {rank}: {} calls, {} results checked, {} wrong",
            tally.calls, tally.results_checked, tally.results_wrong
        );
        if self.options.end != End::Stuck {
            self.wait_for_results()?;
        }
        match self.options.end {
            End::Finalize => {
                world.finalize()?;
                world.destroy()?;
            }
            End::Destroy => world.destroy()?,
            End::Abort => world.abort()?,
            End::Stuck => {
                // Outlives the abort: the device may use it until then.
                let x = Buffer::fill(&stream, self.shared.count, |_| 0_i32)?;
                if rank == 0 {
                    me.call_alone(Call::AllReduce(Reduction::Sum), &x.all())?;
                }
                std::thread::sleep(Duration::from_millis(if rank == 0 { 300 } else { 900 }));
                world.abort()?;
            }
            End::Order => {
                let (twin, half) = further.context("made above")?;
                // Neither as they were made, nor the other way round, nor the same on all ranks.
                let order = match rank % 2 {
                    0 => [half, world, twin],
                    _ => [twin, half, world],
                };
                for comm in order {
                    comm.destroy()?;
                }
            }
            End::Exit => stream.leak(),
        }
        Ok(tally)
    }

    /// Waits until all ranks have their results. The kernel of a rank that only sends ends before its proxy thread has
    /// sent, and up to 2.23 finalizing drops a proxy operation that the thread has not taken up: the others then hang.
    fn wait_for_results(&self) -> anyhow::Result<()> {
        if self.gate.wait().is_leader() {
            self.meeting.reach(Point::Done, self.process)?;
            self.meeting.wait_for_all(Point::Done, self.options.procs);
        }
        self.gate.wait();
        Ok(())
    }

    fn rounds(&self, rank: &Rank<'_>) -> anyhow::Result<()> {
        let last = self.options.rounds.checked_sub(1);
        let skips = self.options.skip_last.map(usize::from) == Some(rank.me());
        for round in 0.. {
            rank.set_round(round);
            let is_last = last == Some(round);
            self.shared.ranges.within(ranges::STEP, Some(round), || self.round(rank, skips && is_last))?;
            if is_last {
                break;
            }
        }
        Ok(())
    }

    fn round(&self, rank: &Rank<'_>, skips: bool) -> anyhow::Result<()> {
        let mut operations = ops::operations_of_round(&self.options.ops, self.shared.version, rank.round());
        let skipped = if skips { operations.pop() } else { None };
        ops::run_all(&operations, rank)?;
        if let Some(operation) = skipped {
            rank.log("skipped", json!({"op": operation.name}))?;
            wait_to_be_killed();
        }
        Ok(())
    }
}

pub(crate) fn wait_to_be_killed() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

enum Start {
    Ready(Communicator),
    Join(UniqueId),
    Program(&'static Programs),
}
