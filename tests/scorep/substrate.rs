//! The plugin as a substrate plugin of Score-P.

use std::os::unix::fs::PermissionsExt as _;

use fake_scorep::Variant;
use whole_plugin::archive::Archive;

use crate::job::{Job, ROW, all_reduces, counts, substrate_folder};

fn job(script: &str) -> Job {
    let mut job = Job::script(Variant::USUAL, script);
    let folder = substrate_folder(&job.scratch);
    job.command.env_remove("NCCL_OTF2_DIR");
    job.command.env("LD_LIBRARY_PATH", folder);
    job.env("SCOREP_SUBSTRATE_PLUGINS", "nccl_otf2")
}

#[test]
fn the_archive_lies_in_the_experiment_directory() {
    let job = job(&all_reduces(20)).env("SCOREP_EXPERIMENT_DIRECTORY", "experiment").run();
    let archive = Archive::open(&job.scratch.path().join("experiment/nccl-otf2"));
    assert_eq!(archive.check()["faults"], 0);
    assert_eq!(counts(&archive)["OPERATIONS"], 20);
    assert_eq!(job.log().on(ROW).count(), 20);
    let manifest = std::fs::read_to_string(job.scratch.path().join("experiment/MANIFEST.md")).expect("a manifest");
    assert!(manifest.contains("`nccl-otf2/`"), "{manifest}");
}

/// Who may read Score-P's directory may read the archive in it.
#[test]
fn the_archive_is_for_whom_the_directory_is() {
    let job = job(&all_reduces(2)).env("SCOREP_EXPERIMENT_DIRECTORY", "experiment").run();
    let mode = |path: &str| {
        let data = job.scratch.path().join("experiment").join(path).metadata().expect(path);
        data.permissions().mode() & 0o777
    };
    let around = mode("");
    assert_eq!((mode("nccl-otf2"), mode("nccl-otf2/traces")), (around, around));
    assert_eq!(mode("nccl-otf2/traces.otf2"), around & 0o666);
    let other = Job::script(Variant::USUAL, &all_reduces(2)).run();
    let own = other.scratch.out().join("traces.otf2").metadata().expect("an archive");
    assert_eq!(own.permissions().mode() & 0o777, 0o600);
}

/// Score-P renames its directory at the end of the program, before the plugin's exit handler runs.
#[test]
fn the_archive_is_made_before_the_directory_is_renamed() {
    let script = all_reduces(20).replace("sleep 5ms\nfinalize c\n", "");
    let job = job(&script).env("FAKE_SCOREP_REGISTER_AT", "2").run();
    let archive = Archive::open(&job.scratch.path().join("scorep-finished/nccl-otf2"));
    assert_eq!(archive.check()["faults"], 0);
    // The plugin registers no callback: Score-P reports the end of the program.
    assert_eq!(counts(&archive)["OPERATIONS"], 20);
    assert_eq!(job.log().on(ROW).count(), 20);
    assert!(!job.scratch.path().join("scorep-measurement-tmp").exists());
}

#[test]
fn the_variable_decides_where_the_archive_goes() {
    let job = job(&all_reduces(2));
    let out = job.scratch.out();
    let job = job.env("NCCL_OTF2_DIR", &out.display().to_string()).run();
    assert_eq!(job.scratch.archive().check()["faults"], 0);
}

#[test]
fn the_rank_comes_from_score_p() {
    let job = job(&all_reduces(2)).env("FAKE_SCOREP_RANKS", "3 4").run();
    let parts = job.scratch.path().join("scorep-finished/nccl-otf2/parts");
    let part = std::fs::read_dir(parts).expect("parts").next().expect("a part").expect("an entry");
    let process = std::fs::read_to_string(part.path().join("process.json")).expect("process.json");
    let process: serde_json::Value = serde_json::from_str(&process).expect("JSON");
    assert_eq!(process["environment"]["rank"], 3, "{process:#}");
    assert_eq!(process["environment"]["size"], 4, "{process:#}");
}
