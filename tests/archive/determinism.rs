//! The same journals always give the same archive, byte for byte: whoever writes it, when, in which order, with how
//! many threads, and beside whom.

use std::path::{Path, PathBuf};
use std::process::Command;

use whole_plugin::archive::{Archive, trace_files};
use whole_plugin::built;
use whole_plugin::machine::two_process_streams;
use whole_plugin::process::{FinishedProcess, LIMIT, Running, run, start};
use whole_plugin::scratch::Scratch;

/// A job's directory as its processes left it before anything was written: journals and who recorded them.
fn copy_of_journals(from: &Path, to: &Path) {
    for part in entries(&from.join("parts")) {
        let copy = to.join("parts").join(part.file_name().expect("a name"));
        std::fs::create_dir_all(copy.join("journal")).expect("make");
        std::fs::copy(part.join("process.json"), copy.join("process.json")).expect("copy");
        for segment in entries(&part.join("journal")) {
            let name = segment.file_name().expect("a name");
            std::fs::copy(&segment, copy.join("journal").join(name)).expect("copy");
        }
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", directory.display());
    paths
}

fn finalize(directory: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(built::nccl_otf2());
    command.arg("finalize").args(options).arg(directory);
    command
}

fn assert_same(one: &Path, other: &Path) {
    let [one, other] = [one, other].map(trace_files);
    assert!(one.keys().eq(other.keys()), "{:?} {:?}", one.keys(), other.keys());
    let different: Vec<&PathBuf> =
        one.iter().filter(|(name, bytes)| other[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(different.is_empty(), "these differ: {different:?}");
}

#[test]
fn the_plugin_and_the_tool_write_the_same_bytes() {
    let scratch = Scratch::new();
    let mut command = scratch.replay(&two_process_streams());
    let _replayed = run(command.env("NCCL_OTF2_KEEP_JOURNAL", "1").env("NCCL_OTF2_FINALIZE", "inline")).with_code(0);
    // Every location has events and definitions: of two processes a rank, and threads that call and do transfers.
    assert!(trace_files(&scratch.out()).len() > 2 * 2 * 3);
    let [whole, shards] = ["whole", "shards"].map(|name| scratch.path().join(name));
    copy_of_journals(&scratch.out(), &whole);
    copy_of_journals(&scratch.out(), &shards);
    let _written = run(&mut finalize(&whole, &[])).with_code(0);
    assert_same(&scratch.out(), &whole);
    // In another second of the clock, and in two steps that begin with the other process.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    for options in [&["--shard", "1/2"][..], &["--shard", "0/2"], &[]] {
        let _written = run(&mut finalize(&shards, options)).with_code(0);
    }
    assert_same(&scratch.out(), &shards);
}

const PROCESSES: usize = 16;
const COLLECTIVES: u64 = 300;

/// What a rank does until it is killed: the parts are of different sizes.
fn script(rank: usize) -> String {
    format!(
        "
        init c id=7 ranks={PROCESSES} rank={rank}
        repeat {COLLECTIVES} {{
            start x Coll func=AllReduce count=1000 datatype=ncclFloat32
            start p ProxyOp parent=x channel=3 peer=1 steps=1 is_send=1
            repeat {} {{
                start s ProxyStep parent=p step=0
                state s ProxyStepSendWait bytes=64
                stop s
            }}
            stop p
            stop x
        }}
        kill 9
        ",
        1 + rank % 4
    )
}

/// A job whose processes are all killed before they write, and copies of its directory.
fn killed_job<const N: usize>() -> (Scratch, [PathBuf; N]) {
    let scratch = Scratch::new();
    let ranks = (0..PROCESSES).map(|rank| start(&mut scratch.rank(rank, PROCESSES, &script(rank))));
    let ranks: Vec<Running> = ranks.collect();
    for rank in ranks {
        let _killed = rank.wait(LIMIT).by_signal(9);
    }
    assert!(!scratch.out().join("traces.otf2").exists());
    let copies = std::array::from_fn(|number| {
        let copy = scratch.path().join(format!("copy{number}"));
        copy_of_journals(&scratch.out(), &copy);
        copy
    });
    (scratch, copies)
}

fn is_whole(directory: &Path) {
    let archive = Archive::open(directory);
    let report = archive.sound();
    let expected = PROCESSES as u64;
    assert_eq!(report["processes"], expected, "{report}");
    assert_eq!(archive.count("COLL::WRITTEN"), COLLECTIVES * expected);
    assert_eq!(archive.count("PROXYOP::WRITTEN"), COLLECTIVES * expected);
    // 1 to 4 steps each, a quarter of the ranks each.
    assert_eq!(archive.count("PROXYSTEP::WRITTEN"), COLLECTIVES * expected / 4 * (1 + 2 + 3 + 4));
}

/// What is left over from whoever made the archive.
fn left_over(directory: &Path) -> Vec<PathBuf> {
    let directories = entries(&directory.join("parts")).into_iter().chain([directory.to_owned()]);
    let is_hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    directories.flat_map(|directory| entries(&directory)).filter(is_hidden).collect()
}

/// How many parts a finalizer says it has written.
fn written(ended: &FinishedProcess) -> usize {
    ended.stdout.matches(": written, ").count()
}

#[test]
fn many_processes_are_written_the_same_by_one_thread_by_many_and_by_two_at_once() {
    let (_scratch, [alone, jobs, other_jobs, together, again]) = killed_job();
    for (directory, threads) in [(&alone, "1"), (&jobs, "2"), (&other_jobs, "16")] {
        let ended = run(&mut finalize(directory, &["--jobs", threads])).with_code(0);
        assert_eq!(written(&ended), PROCESSES);
        assert_same(&alone, directory);
    }
    is_whole(&alone);
    for directory in [&together, &again] {
        for expected in [PROCESSES, 0] {
            let both = [(); 2].map(|()| start(&mut finalize(directory, &["--jobs", "2"])));
            let both = both.map(|one| one.wait(LIMIT).with_code(0));
            let written: usize = both.iter().map(written).sum();
            assert_eq!(written, expected, "each part once\n{}\n{}", both[0], both[1]);
            assert_same(&alone, directory);
            assert_eq!(left_over(directory), Vec::<PathBuf>::new());
        }
    }
}
