//! Other things in the place of the tool's files: no verb blocks on them, fills memory with them, or ignores them.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::{archive, bounded, files_of};
use crate::tool::support::Scratch;

/// Puts something in the place of a file.
type Plant = fn(&Path);

const PLANTED: &[(&str, Plant)] = &[
    ("a FIFO", |path| assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success())),
    ("a link to a device", |path| symlink("/dev/zero", path).expect("a link")),
    ("a directory", |path| fs::create_dir(path).expect("a directory")),
    ("a hole of a tebibyte", |path| File::create(path).expect("made").set_len(1 << 40).expect("a hole")),
    ("a link to nowhere", |path| symlink("/nowhere", path).expect("a link")),
    ("nothing in it", |path| drop(File::create(path).expect("made"))),
];

/// Verbs that only read, and `finalize`.
const VERBS: &[&[&str]] = &[
    &["check", "trace"],
    &["info", "trace"],
    &["stats", "trace"],
    &["print", "trace"],
    &["print", "trace/parts"],
    &["hang", "trace"],
    &["metrics", "trace", "--once"],
    &["top", "trace", "--once"],
    &["watch", "trace", "--once"],
    &["merge", "trace", "trace", "-o", "merged"],
    &["dump", "trace", "--wait", "1"],
    &["report", "trace", "-o", "page.html"],
    &["export", "--format", "perfetto", "trace", "-o", "exported"],
    &["export", "--format", "jsonl", "trace", "-o", "lines"],
];

fn clear(scratch: &Scratch, path: &Path) {
    if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path).expect("removed");
    } else if path.symlink_metadata().is_ok() {
        fs::remove_file(path).expect("removed");
    }
    clear_made(scratch);
}

/// Runs verbs with each planted thing in the place of each of these files, taking the verbs in turn.
fn plant(scratch: &Scratch, files: &[&str], needs: impl Fn(&str, &str, &[&str]) -> bool) {
    let mut turn = 0;
    for file in files {
        let path = scratch.join("trace").join(file);
        let whole = fs::read(&path).ok();
        for (what, planted) in PLANTED {
            clear(scratch, &path);
            planted(&path);
            for _ in 0..4 {
                let verb = VERBS[turn % VERBS.len()];
                turn += 1;
                let ended = bounded(scratch, verb);
                assert!(ended.code.is_some_and(|code| code <= 2), "{what} for {file}: {verb:?}: {ended:?}");
                if needs(file, what, verb) {
                    let name = path.file_name().expect("a name").to_string_lossy();
                    assert_ne!(ended.code, Some(0), "{what} for {file}: {verb:?}: {ended:?}");
                    assert!(ended.printed().contains(&*name), "{what} for {file}: {verb:?}: {ended:?}");
                }
                clear_made(scratch);
            }
            let ended = bounded(scratch, &["finalize", "trace", "--keep-journal"]);
            assert!(ended.code.is_some_and(|code| code <= 2), "{what} for {file}: finalize: {ended:?}");
        }
        clear(scratch, &path);
        if let Some(whole) = whole {
            fs::write(&path, whole).expect("as it was");
        }
    }
}

fn clear_made(scratch: &Scratch) {
    for made in ["merged", "lines"] {
        drop(fs::remove_dir_all(scratch.join(made)));
    }
    drop(fs::remove_file(scratch.join("exported")));
}

#[test]
fn files_of_an_archive() {
    let scratch = Scratch::new();
    let traces = archive(&scratch).join("traces");
    let name = |path: &Path| format!("traces/{}", path.file_name().expect("a name").to_string_lossy());
    // With events, or some verbs need not open it.
    let events =
        files_of(&traces, "evt").into_iter().find(|file| fs::metadata(file).is_ok_and(|metadata| metadata.len() > 20));
    let events = name(&events.expect("one has events"));
    let definitions = events.replace(".evt", ".def");
    let reads_events = ["check", "stats", "print", "report", "export"];
    plant(&scratch, &["traces.otf2", "traces.def", &events, &definitions], |file, _, verb| {
        let is_of_journals = verb.contains(&"trace/parts") || verb.contains(&"jsonl");
        let is_definition = !file.contains('/');
        !is_of_journals && (reads_events.contains(&verb[0]) || is_definition && verb[0] == "info")
    });
}

#[test]
fn files_of_a_part() {
    let scratch = Scratch::new();
    let _out = archive(&scratch);
    let files = [
        "parts/host-0/process.json",
        "parts/host-0/manifest",
        "parts/host-0/done",
        "parts/host-0/journal/0.0",
        "parts/host-0/late.json",
        "parts/host-0/chain.json",
        "parts/host-0/.write.lock",
        "control",
        "dump",
        "job",
        ".unify.lock",
    ];
    plant(&scratch, &files, |file, what, verb| {
        // An empty journal file is one for which there was never room.
        file.ends_with("0.0")
            && what != "nothing in it"
            && (verb == ["print", "trace/parts"] || verb.contains(&"jsonl"))
    });
}

#[test]
fn files_that_the_user_names() {
    let scratch = Scratch::new();
    let _out = archive(&scratch);
    for (verb, file) in [
        (&["metrics", "trace", "--listen", "127.0.0.1:0", "--token-file"][..], "token"),
        (&["export", "--format", "kineto", "trace", "-o", "exported", "--into"], "torch.json"),
        (&["export", "--format", "xplane", "trace", "-o", "made.xplane.pb", "--into"], "vm.xplane.pb"),
        (&["doctor"], "libnccl.so.2"),
    ] {
        for (what, said) in [("fifo", "is a FIFO"), ("/dev/zero", "is a device"), ("/nowhere", "No such file")] {
            let path = scratch.join(file);
            clear(&scratch, &path);
            symlink(what, &path).expect("a link");
            if what == "fifo" {
                clear(&scratch, &scratch.join(what));
                (PLANTED[0].1)(&scratch.join(what));
            }
            let ended = bounded(&scratch, &[verb, &[file]].concat());
            assert!(ended.code.is_some_and(|code| code == 1 || code == 2), "{verb:?} {what}: {ended:?}");
            // If `doctor` cannot read NCCL, it recognises it by name.
            assert!(ended.printed().contains(said) || verb == ["doctor"], "{verb:?} {what}: {ended:?}");
        }
    }
}
