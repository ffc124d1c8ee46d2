//! Many processes, and several that finalize what they left: one archive, always the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::process::{Ended, Running, run, start};
use whole_plugin::scratch::Scratch;

const PROCESSES: usize = 16;
const COLLECTIVES: u64 = 300;
const LIMIT: Duration = Duration::from_secs(120);

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

/// A job of which every process is killed with its journal as it is.
fn killed_job() -> Scratch {
    let scratch = Scratch::new();
    let ranks = (0..PROCESSES).map(|rank| {
        let name = format!("rank{rank}");
        std::fs::write(scratch.path().join(&name), script(rank)).expect("write the script");
        let mut command = scratch.command(built::plugin_host());
        command.args(["script", &name, "--plugin"]);
        command.arg(built::plugin());
        command.env("NCCL_OTF2_EVENTS", "full");
        command.env("RANK", rank.to_string());
        command.env("WORLD_SIZE", PROCESSES.to_string());
        start(&mut command)
    });
    let ranks: Vec<Running> = ranks.collect();
    for rank in ranks {
        let _killed = rank.wait(LIMIT).by_signal(9);
    }
    assert!(!scratch.out().join("traces.otf2").exists());
    scratch
}

fn finalize(directory: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(built::nccl_otf2());
    command.arg("finalize").args(options).arg(directory);
    command
}

/// A job's directory as the processes left it.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").arg(from).arg(to).status();
    assert!(copied.expect("cp").success());
}

/// Definitions and events by name; all but the anchor, which has a random number in it.
fn trace_files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let traces = std::fs::read_dir(directory.join("traces")).expect("event files");
    let traces = traces.map(|file| file.expect("an entry").path());
    let files = traces.chain([directory.join("traces.def")]).map(|path| {
        let name = path.strip_prefix(directory).expect("below").to_owned();
        let bytes = std::fs::read(&path).expect("read");
        (name, bytes)
    });
    files.collect()
}

fn is_whole(directory: &Path) -> Archive {
    let archive = Archive::open(directory);
    let report = archive.check();
    let expected = PROCESSES as u64;
    assert_eq!((&report["faults"], &report["processes"]), (&0.into(), &expected.into()), "{report}");
    let count = |name| archive.count(name);
    assert_eq!(count("COLL::WRITTEN"), COLLECTIVES * expected);
    assert_eq!(count("PROXYOP::WRITTEN"), COLLECTIVES * expected);
    // 1 to 4 steps each, a quarter of the ranks each.
    assert_eq!(count("PROXYSTEP::WRITTEN"), COLLECTIVES * expected / 4 * (1 + 2 + 3 + 4));
    archive
}

/// What is left over from whoever made the archive: nothing.
fn left_over(directory: &Path) -> Vec<PathBuf> {
    let parts = std::fs::read_dir(directory.join("parts")).expect("parts");
    let parts = parts.map(|part| part.expect("an entry").path());
    let hidden = parts.chain([directory.to_owned()]).flat_map(|directory| {
        let entries = std::fs::read_dir(directory).expect("a directory");
        entries.map(|entry| entry.expect("an entry").path())
    });
    let mut hidden: Vec<PathBuf> =
        hidden.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))).collect();
    hidden.sort();
    hidden
}

#[test]
fn two_who_finalize_at_once_make_one_archive() {
    let scratch = killed_job();
    let alone = scratch.path().join("alone");
    copy(&scratch.out(), &alone);
    let _finalized = run(&mut finalize(&alone, &[])).with_code(0);
    let expected = trace_files(&alone);
    is_whole(&alone).validate();
    for attempt in 0..4 {
        let together = scratch.path().join(format!("together{attempt}"));
        copy(&scratch.out(), &together);
        for round in 0..2 {
            let both = [(); 2].map(|()| start(&mut finalize(&together, &["--jobs", "2"])));
            let both = both.map(|one| one.wait(LIMIT).with_code(0));
            let written: usize = both.iter().map(written).sum();
            let expected_now = if round == 0 { PROCESSES } else { 0 };
            assert_eq!(written, expected_now, "each part once\n{}\n{}", both[0], both[1]);
            let _whole = is_whole(&together);
            assert!(trace_files(&together) == expected, "another archive than of one alone, round {round}");
            assert_eq!(left_over(&together), Vec::<PathBuf>::new());
        }
    }
}

/// How many parts a finalizer says it has written.
fn written(ended: &Ended) -> usize {
    ended.stdout.matches(": written, ").count()
}

#[test]
fn many_threads_write_what_one_writes() {
    let scratch = killed_job();
    let archives = ["1", "2", "16"].map(|jobs| {
        let directory = scratch.path().join(format!("jobs{jobs}"));
        copy(&scratch.out(), &directory);
        let ended = run(&mut finalize(&directory, &["--jobs", jobs])).with_code(0);
        assert_eq!(written(&ended), PROCESSES);
        trace_files(&directory)
    });
    assert!(archives[0] == archives[1], "one and two threads differ");
    assert!(archives[0] == archives[2], "one and sixteen threads differ");
}
