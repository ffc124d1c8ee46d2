//! Archives and parts with cut or missing files: what is left is kept, what is lost is reported, and `finalize` makes
//! again what it can.

use std::fs;
use std::path::Path;
use std::process::Command;

use whole_plugin::machine::{has, skip};

use super::{archive, bounded, files_of, patch};
use crate::tool::support::Scratch;

fn cut(path: &Path) {
    // A hard link elsewhere stays intact.
    let bytes = fs::read(path).expect("it is there");
    fs::remove_file(path).expect("it was there");
    fs::write(path, &bytes[..bytes.len() / 2]).expect("written");
}

fn remove(path: &Path) {
    fs::remove_file(path).expect("it was there");
}

/// Removes the journals, so that only the parts are left to make the archive from.
fn without_journals(out: &Path) {
    for part in ["host-0", "host-1"] {
        fs::remove_dir_all(out.join("parts").join(part).join("journal")).expect("it was kept");
    }
}

#[test]
fn an_archive_is_made_again_from_its_parts() {
    let scratch = Scratch::new();
    let out = archive(&scratch);
    without_journals(&out);
    let traces = out.join("traces");
    let files = [
        out.join("traces.otf2"),
        out.join("traces.def"),
        files_of(&traces, "evt").pop().expect("one"),
        files_of(&traces, "def").pop().expect("one"),
    ];
    for file in &files {
        for damage in [cut, remove] {
            damage(file);
            let name = file.file_name().expect("a name").to_string_lossy();
            let found = bounded(&scratch, &["check", "trace"]);
            assert!(found.code == Some(1) || found.code == Some(2), "{name}: {found:?}");
            if file != &files[0] {
                assert!(found.printed().contains(&*name), "{name}: {found:?}");
            }
            if !found.printed().contains("no archive yet") {
                assert!(found.stderr.contains("`nccl-otf2 finalize trace` makes the archive again"), "{found:?}");
            }
            let made = bounded(&scratch, &["finalize", "trace"]);
            assert_eq!(made.code, Some(0), "{name}: {made:?}");
            assert!(!made.stdout.contains("nothing to do"), "{name}: {made:?}");
            let found = bounded(&scratch, &["check", "trace"]);
            assert_eq!(found.code, Some(0), "{name}: {found:?}");
        }
    }
    let again = bounded(&scratch, &["finalize", "trace"]);
    assert!(again.stdout.contains("nothing to do"), "{again:?}");
}

/// Changes a byte: of a name if there is one, else in the middle.
fn flip(path: &Path) {
    patch(path, |bytes| {
        let at = bytes.windows(5).position(|bytes| bytes == b"nccl.").unwrap_or(bytes.len() / 2);
        bytes[at] ^= 1;
    });
}

/// The verbs that report on an archive's events.
const READERS: &[&[&str]] = &[
    &["info", "trace"],
    &["stats", "trace"],
    &["print", "trace"],
    &["report", "trace", "-o", "page.html"],
    &["hang", "trace"],
    &["export", "--format", "kineto", "trace", "-o", "exported"],
    &["export", "--format", "perfetto", "trace", "-o", "exported"],
    &["export", "--format", "parquet", "trace", "-o", "exported"],
    &["export", "--format", "scalasca", "trace", "-o", "exported"],
    &["export", "--format", "xplane", "trace", "-o", "exported.xplane.pb"],
];

/// Without local definitions, or with a wrong byte in some, every number would be wrong.
#[test]
fn definitions_that_were_not_written_so_are_refused() {
    let scratch = Scratch::new();
    let out = archive(&scratch);
    without_journals(&out);
    let traces = out.join("traces");
    // With events, so that a wrong definition would be noticed.
    let events =
        files_of(&traces, "evt").into_iter().find(|file| fs::metadata(file).is_ok_and(|metadata| metadata.len() > 20));
    let local = events.expect("one has events").with_extension("def");
    let global = out.join("traces.def");
    for (file, damage, said) in [
        (&local, remove as fn(&Path), "def: is missing, and other locations have theirs"),
        (&local, flip, "traces/*.def: does not have what was written"),
        (&global, flip, "traces.def: does not have what was written"),
        (&global, cut, "traces.def: was truncated"),
    ] {
        // The file may have several hard links.
        let whole = fs::read(file).expect("it is there");
        remove(file);
        fs::write(file, &whole).expect("written");
        damage(file);
        for verb in READERS {
            let ended = bounded(&scratch, verb);
            assert_eq!(ended.code, Some(2), "{verb:?}: {ended:?}");
            assert!(ended.stderr.contains(said), "{verb:?}: {said}: {ended:?}");
            assert!(ended.stderr.contains("`nccl-otf2 finalize trace` makes the archive again"), "{verb:?}: {ended:?}");
            assert!(!scratch.join("exported").exists() && !ended.stderr.contains("libotf2"), "{verb:?}: {ended:?}");
        }
        let found = bounded(&scratch, &["check", "trace"]);
        assert!(found.code == Some(1) && found.stdout.contains(said), "{found:?}");
        let made = bounded(&scratch, &["finalize", "trace"]);
        assert!(made.code == Some(0) && !made.stdout.contains("nothing to do"), "{made:?}");
        bounded(&scratch, &["check", "trace"]).with_code(0);
    }
}

/// Other programs need not write local definitions. But if only some are there, the others are lost.
#[test]
fn archives_of_others_have_all_local_definitions_or_none() {
    let scratch = Scratch::new();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/scorep-mpi-sample");
    assert!(Command::new("cp").arg("-r").arg(sample).arg(scratch.join("trace")).status().expect("cp ran").success());
    let mut definitions = files_of(&scratch.join("trace/traces"), "def");
    remove(&definitions.remove(0));
    let ended = bounded(&scratch, &["print", "trace"]);
    assert!(ended.code == Some(2) && ended.stderr.contains(".def: is missing"), "{ended:?}");
    definitions.iter().for_each(|file| remove(file));
    bounded(&scratch, &["print", "trace"]).with_code(0);
}

#[test]
fn a_lost_event_file_costs_its_location_only() {
    for damage in [cut, remove] {
        let scratch = Scratch::new();
        let out = archive(&scratch);
        without_journals(&out);
        let events = |out: &Path| files_of(&out.join("traces"), "evt").len();
        let before = events(&out);
        // A location with events: a thread, or a rank of the communicator.
        let part = out.join("parts/host-1");
        let lost = files_of(&part.join("traces"), "evt")
            .into_iter()
            .find(|file| fs::metadata(file).is_ok_and(|metadata| metadata.len() > 20));
        let lost = lost.expect("one has events");
        damage(&lost);
        fs::remove_file(out.join("traces.otf2")).expect("it was there");
        let made = bounded(&scratch, &["finalize", "trace"]).with_code(1);
        let name = lost.file_name().expect("a name").to_string_lossy();
        assert!(made.stdout.contains(&format!("host-1/traces/{name}")), "{made:?}");
        assert!(made.stdout.contains("are not in the archive"), "{made:?}");
        assert_eq!(events(&out), before, "every location has a file");
        let found = bounded(&scratch, &["check", "trace"]).with_code(1);
        assert!(found.stdout.contains("fault A02") && found.stdout.contains("are not in the archive"), "{found:?}");
        assert!(!found.stdout.contains("S08"), "{found:?}");
        for verb in ["info", "stats"] {
            bounded(&scratch, &[verb, "trace"]).with_code(0);
        }
        let again = bounded(&scratch, &["finalize", "trace"]);
        assert_eq!(again.code, Some(1), "it never counts as complete: {again:?}");
    }
}

#[test]
fn what_a_part_lost_is_written_again_from_its_journal() {
    let scratch = Scratch::new();
    let part = archive(&scratch).join("parts/host-0");
    let events = files_of(&part.join("traces"), "evt").remove(0);
    for file in [part.join("manifest"), events] {
        for damage in [cut, remove] {
            damage(&file);
            let made = bounded(&scratch, &["finalize", "trace", "--keep-journal"]);
            assert_eq!(made.code, Some(0), "{}: {made:?}", file.display());
            assert!(made.stdout.contains("host-0: written"), "{}: {made:?}", file.display());
            bounded(&scratch, &["check", "trace"]).with_code(0);
        }
    }
}

#[test]
fn one_process_that_cannot_be_printed_is_not_passed_over() {
    let scratch = Scratch::new();
    let out = archive(&scratch);
    let journal = out.join("parts/host-0/journal");
    fs::rename(&journal, scratch.join("elsewhere")).expect("moved");
    let gone = scratch.join("not here");
    std::os::unix::fs::symlink(&gone, &journal).expect("a link");
    for (number, place) in ["a link to nowhere", "nothing", "a file"].into_iter().enumerate() {
        let printed = bounded(&scratch, &["print", "trace/parts"]);
        assert_eq!(printed.code, Some(1), "{place}: {printed:?}");
        assert!(printed.stderr.contains("host-0") && printed.stdout.contains("AllReduce"), "{place}: {printed:?}");
        let name = format!("out{number}");
        let exported = bounded(&scratch, &["export", "--format", "jsonl", "trace", "-o", &name]);
        assert_eq!(exported.code, Some(1), "{place}: {exported:?}");
        assert!(exported.stderr.contains("host-0"), "{place}: {exported:?}");
        assert!(exported.stdout.contains("left out: 1 processes whose journals cannot be read"), "{exported:?}");
        if journal.symlink_metadata().is_ok() {
            fs::remove_file(&journal).expect("removed");
        }
        if number == 1 {
            fs::write(&journal, "no journal").expect("written");
        }
    }
}

/// Archives with a flipped bit or a truncated file: if otf2-print refuses one, check finds a fault.
#[test]
fn what_otf2_print_refuses_check_refuses() {
    if !has("otf2-print") {
        skip("otf2-print is not installed");
        return;
    }
    let scratch = Scratch::new();
    let out = archive(&scratch);
    let anchor = out.join("traces.otf2");
    let mut files = files_of(&out.join("traces"), "evt");
    files.extend(files_of(&out.join("traces"), "def"));
    files.extend([anchor.clone(), out.join("traces.def")]);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(random >> 33).expect("31 bits") % below
    };
    let mut refused = 0;
    for _ in 0..100 {
        let file = &files[next(files.len())];
        let whole = fs::read(file).expect("it is there");
        // Changed numbers in an anchor can keep libotf2 itself busy for hours.
        let (at, bit, is_cut) = (next(whole.len()), next(8), next(3) == 0 || *file == anchor);
        patch(file, |bytes| if is_cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit });
        let is_refused = !Command::new("otf2-print").arg(&anchor).output().expect("otf2-print ran").status.success();
        let found = bounded(&scratch, &["check", "trace"]);
        refused += u32::from(is_refused);
        let what = format!("{} {} at {at}, bit {bit}", file.display(), if is_cut { "cut" } else { "changed" });
        assert!(found.code.is_some_and(|code| code <= 2), "{what}: {found:?}");
        assert!(!is_refused || found.code != Some(0), "{what}: {found:?}");
        fs::write(file, whole).expect("written");
    }
    assert!(refused > 5, "{refused} refused");
}
