//! What is recorded is for its user only, whatever the umask: every file 0600, every directory 0700, while the job runs
//! and afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use whole_plugin::process::{LIMIT, Running, run, start, through};
use whole_plugin::scratch::Scratch;

const UMASKS: [&str; 2] = ["022", "000"];
const NOTHING: [String; 0] = [];

/// Two threads, network transfers, a call at the end that hangs on.
fn script(rank: u32, ranks: u32, end: &str) -> String {
    format!(
        "
        init c id=0x77 name=world ranks={ranks} rank={rank}
        repeat 20 {{
          start ga GroupApi ctx=c depth=1
          start ca CollApi ctx=c parent=ga func=AllReduce count=7 datatype=ncclFloat32
          stop ca
          start g Group ctx=c
          start co Coll ctx=c parent=ca group=g func=AllReduce count=7 datatype=ncclFloat32 channels=1 warps=8
          start op ProxyOp ctx=c parent=co channel=0 peer=0 is_send=1
          stop op
          stop co
          stop g
          stop ga
        }}
        {end}
    "
    )
}

/// The same command, in a shell with a umask.
fn with_umask(umask: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("umask {umask}; exec \"$0\" \"$@\""));
    through(shell, command)
}

/// A directory of the job that everybody can look into, so that what is in it must be closed itself.
fn open_directory(scratch: &Scratch) -> PathBuf {
    let out = scratch.out();
    fs::create_dir(&out).expect("made");
    fs::set_permissions(&out, fs::Permissions::from_mode(0o755)).expect("open");
    out
}

/// What others could read or change in a directory and, where it is `deep`, anywhere below. Things may go while this
/// looks.
fn open_below(directory: &Path, deep: bool) -> Vec<String> {
    let mut found = Vec::new();
    for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Ok(data) = fs::symlink_metadata(&path) else {
            continue;
        };
        let mode = data.permissions().mode() & 0o7777;
        if data.is_dir() && mode != 0o700 || data.is_file() && mode != 0o600 {
            found.push(format!("{}: {mode:o}", path.display()));
        }
        if deep && data.is_dir() {
            found.extend(open_below(&path, deep));
        }
    }
    found
}

/// Nothing is open, and there is an archive of so many files and more.
fn all_closed(directory: &Path, umask: &str) {
    assert_eq!(open_below(directory, true), NOTHING, "umask {umask}");
    assert!(directory.join("traces.otf2").is_file());
    let traces = fs::read_dir(directory.join("traces")).expect("traces");
    assert!(traces.count() >= 4, "event files and definitions");
}

/// What others can reach while it runs is closed, at any moment: they see what is directly in the job's directory.
fn watch(out: &Path, process: Running) {
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(open_below(out, false), NOTHING);
            }
        });
        let ended = process.wait(LIMIT);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let _ended = ended.with_code(0);
    });
}

fn finalize(scratch: &Scratch, umask: &str, directory: &Path) -> Command {
    with_umask(umask, scratch.tool(&["finalize"]).arg(directory))
}

#[test]
fn an_archive_that_the_job_makes() {
    for umask in UMASKS {
        let scratch = Scratch::new();
        let out = open_directory(&scratch);
        let command = scratch.script(&script(0, 1, "finalize c"));
        watch(&out, start(&mut with_umask(umask, &command)));
        all_closed(&out, umask);
    }
}

#[test]
fn journals_elsewhere_and_kept() {
    for umask in UMASKS {
        let scratch = Scratch::new();
        let out = open_directory(&scratch);
        let journals = scratch.path().join("journals");
        fs::create_dir(&journals).expect("made");
        let mut command = scratch.script(&script(0, 1, "finalize c"));
        command.env("NCCL_OTF2_JOURNAL_DIR", &journals);
        command.env("NCCL_OTF2_KEEP_JOURNAL", "1");
        let _ended = run(&mut with_umask(umask, &command)).with_code(0);
        all_closed(&out, umask);
        assert_eq!(open_below(&journals, true), NOTHING, "umask {umask}");
        assert_eq!(fs::read_dir(&journals).expect("there").count(), 1);
    }
}

/// Two processes without an archive of their own, one of them killed; two callers finalize at once, then again at
/// another level.
#[test]
fn an_archive_that_two_finalizers_make() {
    for umask in UMASKS {
        let scratch = Scratch::new();
        let out = open_directory(&scratch);
        for rank in 0..2 {
            let end = if rank == 0 { "finalize c" } else { "kill 9" };
            let mut command = scratch.script(&script(rank, 2, end));
            command.env("NCCL_OTF2_FINALIZE", "offline");
            let _ended = run(&mut with_umask(umask, &command));
        }
        let both = [(); 2].map(|()| start(&mut finalize(&scratch, umask, &out)));
        for finalizer in both {
            let _ended = finalizer.wait(LIMIT).with_code(0);
        }
        all_closed(&out, umask);
    }
}

#[test]
fn a_snapshot_and_its_archive() {
    for umask in UMASKS {
        let scratch = Scratch::new();
        let out = open_directory(&scratch);
        let mut command = scratch.script(&script(0, 1, "sleep 900s"));
        command.env("NCCL_OTF2_MODE", "flight");
        let job = start(&mut with_umask(umask, &command));
        scratch.wait_for_recording(1);
        let _dumped = run(&mut with_umask(umask, scratch.tool(&["dump"]).arg(&out))).with_code(0);
        let snapshots: Vec<PathBuf> = fs::read_dir(out.join("snapshots"))
            .expect("snapshots")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        let [snapshot] = &snapshots[..] else { panic!("one: {snapshots:?}") };
        all_closed(snapshot, umask);
        // The journals of the running job, and of the killed one.
        assert_eq!(open_below(&out, true), NOTHING, "umask {umask}");
        job.kill();
        let _finalized = run(&mut finalize(&scratch, umask, &out)).with_code(0);
        all_closed(&out, umask);
    }
}
