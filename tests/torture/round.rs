//! One job, from its start to the verdict.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use whole_plugin::built;
use whole_plugin::process::{LIMIT, Running, start};
use whole_plugin::scratch::Scratch;
use whole_plugin::synthetic::Random;

use super::ends::End;
use super::ledger::{self, Numbers};
use super::verdict;

#[derive(Debug)]
pub(crate) struct Round {
    threads: u64,
    rest: Duration,
    has_launcher: bool,
    keeps_journal: bool,
    processes: Vec<PlannedEnd>,
}

/// What happens to a process, and when, from the start of the job.
#[derive(Clone, Copy, Debug)]
struct PlannedEnd {
    after: Duration,
    end: End,
}

pub(crate) struct Judged {
    pub(crate) processes: u64,
    pub(crate) killed: u64,
    pub(crate) callbacks: u64,
}

pub(crate) struct Dead {
    pub(crate) pid: u32,
    pub(crate) threads: u64,
    pub(crate) returned: Numbers,
}

impl Round {
    pub(crate) fn planned(random: &mut Random) -> Self {
        let processes = random.between(1, 4);
        let longest = if random.once_in(4) { 25 } else { 250 };
        let together = random.once_in(3).then(|| PlannedEnd::any(random, longest));
        Self {
            threads: random.between(1, 3),
            rest: Duration::from_micros(20 * 10_u64.pow(u32::from(random.once_in(2)) + u32::from(random.once_in(2)))),
            has_launcher: random.once_in(2),
            keeps_journal: random.once_in(5),
            processes: (0..processes).map(|_| together.unwrap_or_else(|| PlannedEnd::any(random, longest))).collect(),
        }
    }

    pub(crate) fn run(&self, seed: u64) -> Judged {
        let scratch = Scratch::new();
        let began = Instant::now();
        let ledgers: Vec<PathBuf> =
            (0..self.processes.len()).map(|rank| scratch.path().join(format!("ledger.{rank}"))).collect();
        let mut running: Vec<Option<Running>> =
            ledgers.iter().enumerate().map(|(rank, ledger)| Some(self.start(&scratch, rank, ledger))).collect();
        let pids: Vec<u32> = running.iter().flatten().map(Running::id).collect();
        self.end_all(began, &ledgers, &pids);
        for process in &mut running {
            if let Some(process) = process.take() {
                let _ended = process.wait(LIMIT);
            }
        }
        let dead: Vec<Dead> = pids
            .iter()
            .zip(&ledgers)
            .map(|(pid, path)| Dead { pid: *pid, threads: self.threads, returned: ledger::returned(path) })
            .collect();
        let about = format!("--seed {seed}: {self:?}");
        verdict::nothing_is_missing(&scratch, &dead, &about);
        Judged {
            processes: dead.len() as u64,
            killed: self.processes.iter().filter(|planned| planned.end.is_kill()).count() as u64,
            callbacks: dead.iter().flat_map(|dead| dead.returned.values()).sum(),
        }
    }

    fn start(&self, scratch: &Scratch, rank: usize, ledger: &std::path::Path) -> Running {
        let mut command = scratch.command(built::plugin_host());
        command.arg("endure").arg("--ledger").arg(ledger);
        command.arg("--plugin").arg(built::plugin());
        command.args(["--threads", &self.threads.to_string()]);
        command.args(["--rank", &rank.to_string()]);
        command.args(["--ranks", &self.processes.len().to_string()]);
        command.args(["--rest-us", &self.rest.as_micros().to_string()]);
        command.env("NCCL_OTF2_EVENTS", "full");
        if self.keeps_journal {
            command.env("NCCL_OTF2_KEEP_JOURNAL", "1");
        }
        if self.has_launcher {
            command.env("RANK", rank.to_string());
            command.env("WORLD_SIZE", self.processes.len().to_string());
        }
        start(&mut command)
    }

    fn end_all(&self, began: Instant, ledgers: &[PathBuf], pids: &[u32]) {
        let mut events: Vec<(Duration, usize, End)> = Vec::new();
        for (place, planned) in self.processes.iter().enumerate() {
            match planned.end {
                End::KilledWhile(request, later) => {
                    events.push((planned.after, place, End::Request(request)));
                    events.push((planned.after + later, place, End::Killed));
                }
                end => events.push((planned.after, place, end)),
            }
        }
        events.sort_by_key(|(when, place, _)| (*when, *place));
        for (when, place, end) in events {
            std::thread::sleep(when.saturating_sub(began.elapsed()));
            match end {
                End::Request(request) if ledgers[place].exists() => ledger::ask(&ledgers[place], request),
                // Who has not begun to count cannot be asked.
                _ => kill(pids[place]),
            }
        }
    }
}

impl PlannedEnd {
    fn any(random: &mut Random, longest_ms: u64) -> Self {
        Self { after: Duration::from_micros(random.between(0, longest_ms * 1000)), end: End::any(random) }
    }
}

/// The process is ours and not waited for yet: its id is not used again.
fn kill(pid: u32) {
    // SAFETY: sends a signal, touches no memory.
    let _gone_already = unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
}
