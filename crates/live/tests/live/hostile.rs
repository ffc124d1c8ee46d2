//! Processes that come and go, and other files in a job's directory.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use journal::testing::{self, Process};
use live::{Live, Options, ProcessState, Snapshot};
use serde_json::Value;
use tempfile::tempdir;

/// Whether a process with this number runs does not matter to the test.
const NOBODY: u32 = 1 << 30;

fn eager() -> Options {
    Options { scan: Duration::ZERO, settle: Duration::from_millis(20), ..Options::default() }
}

fn begin(out: &Path, rank: u32, pid: u32) -> Process {
    crate::rig::begin(&out.join("parts").join(format!("rank{rank}")), (rank, 2), pid)
}

/// Polls until the condition holds.
fn wait_for(live: &mut Live, what: &str, is: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let began = Instant::now();
    loop {
        live.poll();
        let snapshot = live.snapshot();
        if is(&snapshot) {
            return snapshot;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: {snapshot:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn operations(snapshot: &Snapshot) -> u64 {
    snapshot.operations.iter().map(|series| series.count).sum()
}

#[test]
fn a_process_is_followed_from_its_beginning_to_its_end() {
    let directory = tempdir().expect("a directory");
    let out = directory.path();
    let mut live = Live::new(out, eager());
    assert_eq!(live.poll().processes, 0);
    let mut process = begin(out, 0, std::process::id());
    for sequence in 0..10 {
        process.collective(sequence);
    }
    let snapshot = wait_for(&mut live, "ten operations", |snapshot| operations(snapshot) == 10);
    assert_eq!(snapshot.processes[0].state, ProcessState::Running);
    assert_eq!(snapshot.operations[0].function, "ncclAllReduce");
    assert_eq!((snapshot.operations[0].timing, snapshot.operations[0].bytes), ("enqueue", 40_000));
    assert_eq!((snapshot.ranks[0].rank, snapshot.ranks[0].open), (0, 0));
    assert!(snapshot.ranks[0].last_event_ns.is_some_and(|last_ns| last_ns <= snapshot.at_ns));
    let _events = process.all_reduce(10);
    let snapshot = wait_for(&mut live, "an operation on the GPU's timer", |snapshot| operations(snapshot) == 11);
    assert!(snapshot.operations.iter().any(|series| series.timing == "kernelch"), "{snapshot:#?}");
    // An operation that stays open.
    let open = testing::start(process.context, 0, process.rank, testing::all_reduce(11, 0));
    process.main.start(&open);
    let snapshot = wait_for(&mut live, "an open operation", |snapshot| snapshot.ranks[0].open == 1);
    let (function, since_ns) = snapshot.ranks[0].oldest.clone().expect("there is one");
    assert!(function == "ncclAllReduce" && snapshot.ranks[0].last_event_ns >= Some(since_ns), "{snapshot:#?}");
    let path = process.end();
    fs::remove_dir_all(path.join("journal")).expect("it is there");
    let snapshot = wait_for(&mut live, "the end", |snapshot| snapshot.processes[0].state == ProcessState::Finished);
    assert_eq!((operations(&snapshot), snapshot.processes[0].late_events), (11, 0));
    assert_eq!(live.poll().processes, 0);
    // A new follower finds nothing of the process, and reports that.
    let mut late = Live::new(out, eager());
    let later = wait_for(&mut late, "what is gone", |snapshot| {
        snapshot.processes_missed + snapshot.unreadable.len() as u64 == 1
    });
    assert_eq!(operations(&later), 0);
}

#[test]
fn what_is_no_part_does_no_harm() {
    let directory = tempdir().expect("a directory");
    let out = directory.path();
    let parts = out.join("parts");
    fs::create_dir_all(parts.join("empty")).expect("a directory");
    fs::write(parts.join("a file"), "garbage").expect("a file");
    std::os::unix::fs::symlink(out, parts.join("circle")).expect("a link");
    let torn = begin(out, 0, NOBODY);
    let whole = fs::read(torn.part.join("process.json")).expect("it is there");
    fs::write(torn.part.join("process.json"), &whole[..whole.len() / 2]).expect("a file");
    fs::create_dir(parts.join("elsewhere")).expect("a directory");
    let elsewhere = String::from_utf8_lossy(&whole).replace(&journal::host::boot_id(), "of another host");
    fs::write(parts.join("elsewhere/process.json"), elsewhere).expect("a file");
    let mut process = begin(out, 1, std::process::id());
    fs::write(process.part.join("journal/9.0"), [0x5a; 5000]).expect("a file");
    process.collective(0);
    let mut live = Live::new(out, eager());
    let snapshot = wait_for(&mut live, "one operation", |snapshot| operations(snapshot) == 1);
    assert_eq!((snapshot.unreadable.len(), snapshot.processes_elsewhere, snapshot.processes.len()), (1, 1, 1));
    assert!(snapshot.processes[0].damaged > 0, "{snapshot:#?}");
    fs::write(torn.part.join("process.json"), &whole).expect("a file");
    let snapshot = wait_for(&mut live, "two processes", |snapshot| snapshot.processes.len() == 2);
    assert_eq!(snapshot.unreadable, [""; 0]);
    fs::remove_dir_all(&parts).expect("it is there");
    wait_for(&mut live, "nothing", |snapshot| {
        snapshot.processes.iter().all(|process| process.state == ProcessState::Finished)
    });
}

/// Process ids of another container mean nothing here: fresh records show that the process runs, as for `hang`. If its
/// communicators are finalized, it is over, whether or not its archive is written.
#[test]
fn a_process_of_another_container_is_judged_by_its_records() {
    let directory = tempdir().expect("a directory");
    let mut process = begin(directory.path(), 0, NOBODY);
    let file = process.part.join("process.json");
    let mut info: Value = serde_json::from_slice(&fs::read(&file).expect("it is there")).expect("JSON");
    info["pid_namespace"] = "pid:[1]".into();
    fs::write(&file, info.to_string()).expect("a file");
    process.collective(0);
    let mut live = Live::new(directory.path(), eager());
    let snapshot = wait_for(&mut live, "an operation", |snapshot| operations(snapshot) == 1);
    assert_eq!(snapshot.processes[0].state, ProcessState::Running);
    let mut gone = begin(directory.path(), 1, NOBODY);
    gone.collective(0);
    let _part = gone.end();
    let is_over = |snapshot: &Snapshot| snapshot.processes.iter().any(|one| one.state == ProcessState::Finished);
    wait_for(&mut live, "the end of a process", is_over);
    let _part = process.leave();
}

#[test]
fn series_are_bounded() {
    let directory = tempdir().expect("a directory");
    let mut process = begin(directory.path(), 0, NOBODY);
    for sequence in 0..20 {
        process.exchange();
        process.collective(sequence);
    }
    let _part = process.leave();
    let mut live = Live::new(directory.path(), Options { max_series: 1, ..eager() });
    let snapshot = wait_for(&mut live, "all", |snapshot| operations(snapshot) == 60);
    let communicator = |at: usize| snapshot.communicators[at].name.as_str();
    let names: Vec<_> =
        snapshot.operations.iter().map(|operation| (communicator(operation.communicator), operation.count)).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[1].0, "other");
    assert!(snapshot.folded >= 1, "{}", snapshot.folded);
}
