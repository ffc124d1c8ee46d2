//! Copies and links of running jobs' journals, finalized meanwhile: each record stays with the process that made it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::process::{LIMIT, Running, run, start};
use whole_plugin::scratch::Scratch;
use whole_plugin::synthetic::Random;

use super::from_environment;

/// A directory to finalize, and the most groups that an archive of it may have.
struct Directory {
    path: PathBuf,
    most: u64,
}

fn begin(scratch: &Scratch, groups: u64, is_outside: bool) -> Running {
    let script = format!(
        "init c ranks=1 rank=0
        repeat {groups} {{
          start g GroupApi ctx=c depth=1
          stop g
          sleep 1ms
        }}
        finalize c\n"
    );
    let mut command = scratch.script(&script);
    if is_outside {
        command.env("NCCL_OTF2_JOURNAL_DIR", scratch.path().join("journals"));
    }
    start(&mut command)
}

fn copy(from: &Path, to: &Path) {
    // Files of a running job may vanish while they are copied.
    let _copied = run(Command::new("cp").arg("-r").args([from, to]));
}

/// The part of one job with a link to the journal of another.
fn cross(part: &Path, other: &Path, to: &Path) {
    let crossed = to.join("parts").join(part.file_name().expect("a name"));
    fs::create_dir_all(&crossed).expect("made");
    fs::copy(part.join("process.json"), crossed.join("process.json")).expect("copied");
    symlink(other.join("journal"), crossed.join("journal")).expect("linked");
}

fn finalize(directory: &Directory, is_live: bool, about: &str) {
    let mut command = Command::new(built::nccl_otf2());
    command.arg("finalize").args(is_live.then_some("--include-live")).arg(&directory.path);
    let ended = run(&mut command);
    assert!(matches!(ended.status.code(), Some(0..=2)), "{about}: {ended}");
    if directory.path.join("traces.otf2").exists() {
        let groups = Archive::open(&directory.path).count("GROUPAPI::WRITTEN");
        assert!(groups <= directory.most, "{about}: {groups} of {}: {ended}", directory.most);
    } else {
        assert!(!ended.stderr.is_empty() || !ended.stdout.is_empty(), "{about}: {ended}");
    }
}

#[test]
fn copies_and_links_of_running_jobs_take_nothing() {
    let rounds = from_environment("NCCL_OTF2_TEST_KILLS", 40).div_ceil(40);
    let first = from_environment("NCCL_OTF2_TEST_SEED", 1);
    for seed in first..first + rounds {
        let random = &mut Random(seed);
        let jobs = [Scratch::new(), Scratch::new()];
        let groups = [random.between(800, 1500), random.between(800, 1500)];
        let running = [begin(&jobs[0], groups[0], true), begin(&jobs[1], groups[1], random.once_in(2))];
        jobs.iter().for_each(|job| job.wait_for_recording(1));
        let parts = [0, 1].map(|job| jobs[job].recording().remove(0));
        let aside = Scratch::new();
        let mut directories: Vec<Directory> =
            (0..2).map(|job| Directory { path: jobs[job].out(), most: groups[job] }).collect();
        for number in 0..6 {
            std::thread::sleep(Duration::from_millis(random.between(0, 80)));
            let job = usize::from(random.once_in(2));
            let path = aside.path().join(number.to_string());
            if number % 2 == 0 {
                copy(&jobs[job].out(), &path);
                directories.push(Directory { path, most: groups[job] });
            } else if parts[job].join("process.json").exists() {
                cross(&parts[job], &parts[1 - job], &path);
                directories.push(Directory { path, most: 0 });
            }
            let last = directories.len() as u64 - 1;
            let chosen = usize::try_from(random.between(0, last)).expect("small");
            // The job's own directory is not written before its end.
            finalize(&directories[chosen], chosen > 1 && random.once_in(2), &format!("--seed {seed}"));
            let newest = directories.len() - 1;
            finalize(&directories[newest], newest > 1, &format!("--seed {seed}"));
        }
        for process in running {
            let _ended = process.wait(LIMIT).undisturbed(&[]);
        }
        for (job, groups) in jobs.iter().zip(groups) {
            assert_eq!(job.sound_archive().count("GROUPAPI::WRITTEN"), groups, "--seed {seed}");
        }
        directories.iter().for_each(|directory| finalize(directory, false, &format!("--seed {seed}")));
    }
}
