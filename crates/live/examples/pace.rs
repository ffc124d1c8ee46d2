//! Writes the journals of many processes at a steady pace, to measure the cost of following them. Run it as
//! `pace DIR PROCESSES EVENTS_PER_SECOND SECONDS` (events per process), along with `nccl-otf2 metrics DIR --json`.

use std::path::Path;
use std::time::{Duration, Instant};

use journal::host::boot_id;
use journal::part::ProcessInfo;
use journal::testing::{Process, ProcessIdentity};

/// Events of one all-reduce of a process, with its calls, transfers and channels.
const EVENTS: f64 = 10.0;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, numbers @ ..] = arguments.as_slice() else {
        panic!("pace DIR PROCESSES EVENTS_PER_SECOND SECONDS")
    };
    let numbers: Vec<u32> = numbers.iter().map(|number| number.parse().expect("a number")).collect();
    let [processes, events, seconds] = numbers[..] else { panic!("three numbers") };
    let mut all: Vec<Process> = (0..processes).map(|rank| begin(Path::new(directory), rank, processes)).collect();
    let pause = Duration::from_secs_f64(EVENTS / f64::from(events));
    let began = Instant::now();
    let mut sequence = 0;
    while began.elapsed() < Duration::from_secs(seconds.into()) {
        for process in &mut all {
            let _ids = process.all_reduce(sequence);
        }
        sequence += 1;
        let due = pause.mul_f64(f64::from(u32::try_from(sequence).expect("few")));
        std::thread::sleep(due.saturating_sub(began.elapsed()));
    }
    println!("{sequence} all-reduces of {processes} processes in {:.1} s", began.elapsed().as_secs_f64());
    for process in all {
        let _part = process.leave();
    }
}

fn begin(out: &Path, rank: u32, ranks: u32) -> Process {
    let info = ProcessInfo {
        boot_id: boot_id(),
        pid: std::process::id(),
        table: 6,
        event_mask: 0xffff,
        nccl_version: "2.30.7".to_owned(),
        ..ProcessInfo::default()
    };
    Process::begin_as(
        &out.join("parts").join(format!("rank{rank}")),
        ProcessIdentity { rank, ranks, in_environment: true },
        &info,
    )
}
