//! Places where nothing can be written, or not enough: the program is not disturbed, one line says what is wrong, and
//! what was recorded before is kept.

use std::process::Command;

use whole_plugin::archive::Archive;
use whole_plugin::machine::skip;
use whole_plugin::process::{FinishedProcess, LIMIT, run, start, wait_for};
use whole_plugin::scratch::Scratch;

use crate::file_size::{can_limit, under, with_limit};
use crate::{EVENTS, MUCH};

/// Where nothing can be recorded: NCCL is asked for no events, and still gets a context.
const NOTHING: &str = "
    init c ranks=1 rank=0
    expect-context non-NULL
    expect-mask 0
    init d ranks=1 rank=0
    expect-context other c
    start g GroupApi ctx=c
    expect-handle NULL
    stop g
    finalize c
    init e ranks=1 rank=0
    expect-mask 0
    finalize d
    finalize e
";

/// Every event is in the archive or counted as lost, and the archive says so itself.
fn accounted_for(archive: &Archive) -> u64 {
    let report = archive.sound();
    let (seen, lost) = (archive.count("GROUPAPI::SEEN"), archive.count("GROUPAPI::LOST"));
    assert_eq!(archive.count("GROUPAPI::WRITTEN"), seen);
    assert_eq!(seen + lost, EVENTS);
    let stops = archive.count("GROUPAPI::STOPS") + archive.count("GROUPAPI::STOPS_LOST");
    assert_eq!((stops, archive.count("STARTED")), (EVENTS, EVENTS));
    assert!(seen > 0 && lost > 0, "{seen} seen, {lost} lost: the limit was not what this test needs");
    assert!(report["rules"]["A05"]["count"].as_u64() >= Some(1), "{report}");
    seen
}

#[test]
fn a_file_in_the_way() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path().join("file"), "").expect("write");
    let mut command = scratch.script(NOTHING);
    command.env("NCCL_OTF2_DIR", scratch.path().join("file/out"));
    let ended = run(&mut command).undisturbed(&["NCCL_OTF2_DIR"]);
    assert!(ended.our_lines()[0].contains("file/out"), "{ended}");
}

/// A part that is never done would keep the other processes from making the archive.
#[test]
fn a_journal_directory_that_cannot_be_made_leaves_no_part() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path().join("file"), "").expect("write");
    let mut command = scratch.script(NOTHING);
    command.env("NCCL_OTF2_JOURNAL_DIR", scratch.path().join("file/journals"));
    let _ended = run(&mut command).undisturbed(&["NCCL_OTF2_JOURNAL_DIR"]);
    let parts = std::fs::read_dir(scratch.out().join("parts")).expect("parts/");
    assert_eq!(parts.count(), 0);
}

#[test]
fn the_size_limit() {
    let scratch = Scratch::new();
    let mut command = scratch.script(MUCH);
    command.env("NCCL_OTF2_MAX_SIZE", "3M");
    let _ended = run(&mut command).undisturbed(&["NCCL_OTF2_MAX_SIZE", "were not recorded"]);
    let seen = accounted_for(&scratch.archive());
    // Two megabytes of the three: one is the maintenance thread's. An event takes 40 to 100 bytes.
    assert!((20_000..=EVENTS).contains(&seen), "{seen}");
}

#[test]
fn a_limit_too_small_for_anything() {
    let scratch = Scratch::new();
    let mut command = scratch.script(MUCH);
    command.env("NCCL_OTF2_MAX_SIZE", "1M");
    let ended = run(&mut command).undisturbed(&["NCCL_OTF2_MAX_SIZE", "NCCL_OTF2_MAX_SIZE", "were not recorded"]);
    assert!(ended.our_lines()[0].contains("=1M: less than 3M"), "{ended}");
    let seen = accounted_for(&scratch.archive());
    assert!(seen >= 20_000, "3M are used: {seen}");
}

/// Runs a script with a file system of its own mounted where it writes; what is in there at the end is copied to
/// `saved`. None where the system does not let us.
fn on_mount(scratch: &Scratch, options: &str, script: &str) -> Option<FinishedProcess> {
    let allowed = Command::new("unshare").args(["-m", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        skip("this process may not make a mount namespace (unshare -m)");
        return None;
    }
    // 99: the mount was refused.
    const SHELL: &str = r#"
        mkdir -p "$NCCL_OTF2_DIR" && mount -t tmpfs -o "$1" tmpfs "$NCCL_OTF2_DIR" || exit 99
        shift
        "$@"; code=$?
        cp -a "$NCCL_OTF2_DIR" saved && exit $code
    "#;
    let host = scratch.script(script);
    let mut command = scratch.command("unshare");
    command.args(["-m", "sh", "-c", SHELL, "sh", options]);
    command.arg(host.get_program()).args(host.get_args());
    command.env("NCCL_OTF2_EVENTS", "full");
    let ended = run(&mut command);
    if ended.status.code() == Some(99) {
        skip(&format!("this process may not mount a tmpfs: {}", ended.stderr));
        return None;
    }
    Some(ended)
}

#[test]
fn a_file_system_that_is_read_only_or_full_from_the_start() {
    for (options, why) in [("ro", "Read-only file system"), ("size=64k", "No space left")] {
        let scratch = Scratch::new();
        if let Some(ended) = on_mount(&scratch, options, NOTHING) {
            let ended = ended.undisturbed(&["nothing is recorded"]);
            assert!(ended.our_lines()[0].contains(why), "{ended}");
        }
    }
}

#[test]
fn a_disk_that_fills_up_while_recording() {
    let scratch = Scratch::new();
    // Once the journal is written and gone there is room for the little that it became.
    if let Some(ended) = on_mount(&scratch, "size=3m", MUCH) {
        let _ended = ended.undisturbed(&["No space left", "were not recorded"]);
        accounted_for(&Archive::open(&scratch.path().join("saved")));
    }
}

#[test]
fn a_disk_too_full_for_the_archive() {
    let scratch = Scratch::new();
    if let Some(ended) = on_mount(&scratch, "size=4m", MUCH) {
        let ended = ended.undisturbed(&["No space left", "the journal is kept, `nccl-otf2 finalize "]);
        let saved = scratch.path().join("saved");
        assert!(!saved.join("traces.otf2").exists(), "{ended}");
        let _finalized = run(scratch.tool(&["finalize"]).arg(&saved)).with_code(0);
        accounted_for(&Archive::open(&saved));
    }
}

/// Under a limit on memory (`ulimit -v`) the program ends as without the plugin, and the tool makes what it could not.
#[test]
fn a_limit_on_memory() {
    if !can_limit() {
        return;
    }
    let (mut left, mut made) = (0, 0);
    for mib in [40, 70, 110, 130, 150, 170, 190, 220, 250, 280, 330, 400, 500, 600, 650, 700, 1000, 3000] {
        let scratch = Scratch::new();
        let output = under(&format!("--as={}", mib << 20), &scratch.script(MUCH));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{mib} MiB: {}\n{said}", output.status);
        if said.contains("nothing is recorded: ") {
            continue;
        }
        if scratch.out().join("traces.otf2").exists() {
            made += 1;
        } else {
            left += 1;
            assert!(said.contains("no archive yet: ") && said.contains("`nccl-otf2 finalize "), "{mib} MiB: {said}");
        }
        // Where nothing but the beginning could be recorded, too: readers refuse an archive without locations.
        let _finalized = scratch.finalize().with_code(0);
        let archive = scratch.sound_archive();
        assert_eq!(archive.count("GROUPAPI::WRITTEN") + archive.count("GROUPAPI::LOST"), EVENTS, "{mib} MiB: {said}");
    }
    assert!(left > 3 && made > 0, "{left} archives were left to the tool, {made} were made");
}

/// Where address space is limited (`ulimit -v`) journals leave it to the program.
#[test]
fn journals_take_little_of_a_limited_address_space() {
    const LIMIT_BYTES: u64 = 1 << 30;
    if !can_limit() {
        return;
    }
    let scratch = Scratch::new();
    let script = scratch.script(&MUCH.replace("finalize c", "take go\nfinalize c"));
    let running = start(&mut with_limit(&format!("--as={LIMIT_BYTES}"), &script));
    let mapped: Vec<u64> = wait_for("journals of two threads", || {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", running.id())).ok()?;
        let journals = maps.lines().filter(|line| line.contains("/journal/"));
        let sizes = journals.map(|line| {
            let (begin, end) = line.split_whitespace().next().and_then(|range| range.split_once('-'))?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some(number(end)? - number(begin)?)
        });
        let sizes: Vec<u64> = sizes.collect::<Option<_>>()?;
        (sizes.len() >= 2).then_some(sizes)
    });
    assert!(mapped.iter().all(|bytes| *bytes <= LIMIT_BYTES / 256), "{mapped:?}");
    std::fs::write(scratch.path().join("go.handle"), "0").expect("write");
    let _ended = running.wait(LIMIT).with_code(0);
    let _finalized = scratch.finalize().with_code(0);
    assert_eq!(scratch.sound_archive().count("GROUPAPI::WRITTEN"), EVENTS);
}

/// What is gone is not said to be kept.
#[test]
fn a_directory_that_is_removed_while_the_job_runs() {
    for (finalize, removed) in [("inline", "out"), ("offline", "out"), ("inline", "out/parts"), ("offline", "journal")]
    {
        let scratch = Scratch::new();
        let script = MUCH.replace("finalize c", "take removed\nfinalize c");
        let mut command = scratch.script(&script);
        command.env("NCCL_OTF2_FINALIZE", finalize);
        let running = start(&mut command);
        scratch.wait_for_recording(1);
        let path = match removed {
            "journal" => scratch.recording().remove(0).join("journal"),
            removed => scratch.path().join(removed),
        };
        // The process may be making a file in it.
        wait_for("removal", || std::fs::remove_dir_all(&path).is_ok().then_some(()));
        std::fs::write(scratch.path().join("removed.handle"), "0").expect("write");
        let ended = running.wait(LIMIT).undisturbed(&["was removed or moved while the job ran"]);
        assert!(!ended.stderr.contains("is kept") && !ended.stderr.contains("makes the archive"), "{ended}");
    }
}
