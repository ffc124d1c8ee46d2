//! Other users: parts that cannot be read, and what somebody has put in the way in a directory that all can write to.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;

use whole_plugin::built;
use whole_plugin::machine::skip;
use whole_plugin::process::{run, through};
use whole_plugin::scratch::Scratch;

use crate::parts::{finalize, job, report};
use journal::testing::{Process, ProcessIdentity};

/// A user and group that own nothing.
const NOBODY: u32 = 65534;

/// Whether this test can be two users.
fn is_root() -> bool {
    let own = fs::metadata("/proc/self").map(|data| data.uid());
    let can = own.is_ok_and(|uid| uid == 0)
        && Command::new("setpriv").arg("--version").output().is_ok_and(|output| output.status.success());
    if !can {
        skip("only root with setpriv can be two users");
    }
    can
}

fn give_to_nobody(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("readable") {
            give_to_nobody(&entry.expect("an entry").path());
        }
    }
}

/// The command as nobody runs it.
fn as_nobody(command: &Command) -> Command {
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    through(setpriv, command)
}

/// Whether nobody may run what was built here: a checkout in a home directory is not for all.
fn nobody_can_run(program: &Path) -> bool {
    let mut command = Command::new(program);
    let asked = as_nobody(command.arg("--version")).output();
    let can = asked.is_ok_and(|output| output.status.success());
    if !can {
        skip(&format!("user {NOBODY} may not run {}", program.display()));
    }
    can
}

#[test]
fn a_part_of_somebody_else_is_named_and_the_rest_is_written() {
    if !is_root() || !nobody_can_run(&built::nccl_otf2()) {
        return;
    }
    let scratch = Scratch::new();
    let [_, foreign] = job(&scratch.out());
    give_to_nobody(scratch.path());
    chown(&foreign, Some(0), Some(0)).expect("root may");
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o700)).expect("root may");
    let ended = run(&mut as_nobody(&finalize(&scratch.out()))).with_code(1);
    let report = report(&ended);
    assert_eq!(report["archive"]["processes"], 1, "{ended}");
    assert_eq!(report["parts"][0]["state"], "written", "{ended}");
    assert_eq!(report["parts"][1]["state"], "failed", "{ended}");
    let reason = report["parts"][1]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("Permission denied"), "{ended}");
    scratch.archive().validate();
}

/// What permissions hide is not taken for nothing.
#[test]
fn what_nobody_may_read_is_named_by_metrics() {
    if !is_root() || !nobody_can_run(&built::nccl_otf2()) {
        return;
    }
    for is_whole in [false, true] {
        let scratch = Scratch::new();
        let [_, part] = job(&scratch.out());
        let closed = if is_whole { scratch.out().join("parts") } else { part };
        give_to_nobody(scratch.path());
        chown(&closed, Some(0), Some(0)).expect("root may");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("root may");
        let mut metrics = Command::new(built::nccl_otf2());
        let ended = run(&mut as_nobody(metrics.args(["metrics", "--once"]).arg(scratch.out())));
        let wanted = format!("{}", closed.display());
        assert!(ended.stderr.contains(&wanted) && ended.stderr.contains("Permission denied"), "{ended}");
    }
}

/// A part's file that the system does not read is not taken for damage: finalize names it and what helps.
#[test]
fn a_file_of_a_part_that_cannot_be_read_is_named_with_a_way_out() {
    if !is_root() || !nobody_can_run(&built::nccl_otf2()) {
        return;
    }
    for file in ["collectives", "done"] {
        let scratch = Scratch::new();
        let out = scratch.out();
        // The second rank calls more, so that its calls are read.
        let [_, part] = [0, 1].map(|rank| {
            let mut process = Process::begin(&out, ProcessIdentity { rank, ranks: 2, in_environment: true });
            for sequence in 0..=u64::from(rank) {
                process.all_reduce(sequence);
            }
            process.end()
        });
        let _written = run(&mut finalize(&out)).with_code(0);
        fs::remove_file(out.join("traces.otf2")).expect("removed");
        give_to_nobody(scratch.path());
        chown(part.join(file), Some(0), Some(0)).expect("root may");
        fs::set_permissions(part.join(file), fs::Permissions::from_mode(0o600)).expect("root may");
        let ended = run(&mut as_nobody(&finalize(&out)));
        assert_ne!(ended.status.code(), Some(0), "{ended}");
        let said = format!("{}{}", ended.stdout, ended.stderr);
        let wanted = format!("{}: Permission denied", part.join(file).display());
        assert!(said.contains(&wanted) && said.contains("move it away"), "{ended}");
        fs::remove_file(part.join(file)).expect("root may");
        let _written = run(&mut as_nobody(&finalize(&out))).with_code(0);
    }
}

/// A journal may be a link to a directory of somebody else's, who has to open that one.
#[test]
fn the_directory_that_refuses_is_named_and_not_the_link_to_it() {
    if !is_root() || !nobody_can_run(&built::nccl_otf2()) {
        return;
    }
    for closed in ["closed", "closed/journal"] {
        let scratch = Scratch::new();
        let [_, part] = job(&scratch.out());
        let closed = scratch.path().join(closed);
        let journal = scratch.path().join("closed/journal");
        fs::create_dir(scratch.path().join("closed")).expect("made");
        fs::rename(part.join("journal"), &journal).expect("moved");
        symlink(&journal, part.join("journal")).expect("linked");
        give_to_nobody(scratch.path());
        chown(&closed, Some(0), Some(0)).expect("root may");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("root may");
        let mut print = Command::new(built::nccl_otf2());
        let ended = run(&mut as_nobody(print.arg("print").arg(scratch.out().join("parts"))));
        assert!(ended.stderr.contains(&closed.display().to_string()), "{ended}");
        let ended = run(&mut as_nobody(&finalize(&scratch.out()))).with_code(1);
        let report = report(&ended);
        let reason = report["parts"][1]["reason"].as_str().unwrap_or_default();
        let wanted = format!("{}: Permission denied", closed.display());
        assert!(reason.starts_with(&wanted), "{ended}");
    }
}

/// A recording is for its user only: others hear that, and not that nothing is there.
#[test]
fn a_job_of_somebody_else_is_not_taken_for_none() {
    if !is_root() || !nobody_can_run(&built::nccl_otf2()) {
        return;
    }
    let scratch = Scratch::new();
    let _parts = job(&scratch.out());
    let for_all = fs::Permissions::from_mode(0o755);
    fs::set_permissions(scratch.path(), for_all).expect("root may");
    let only_own = fs::Permissions::from_mode(0o700);
    fs::set_permissions(scratch.out(), only_own).expect("root may");
    for verb in ["finalize", "hang", "dump", "info", "check", "print"] {
        let mut command = Command::new(built::nccl_otf2());
        command.arg(verb).arg(scratch.out());
        let ended = run(&mut as_nobody(&command)).with_code(2);
        let said = &ended.stderr;
        assert!(said.contains("Permission denied"), "{verb}: {ended}");
        assert!(said.contains("only the user who recorded it"), "{verb}: {ended}");
    }
}

/// A link may lead anywhere: the files there are not this job's to write or remove.
#[test]
fn a_part_that_is_a_link_is_not_followed() {
    let scratch = Scratch::new();
    let [_, part] = job(&scratch.out());
    let elsewhere = scratch.path().join("elsewhere");
    fs::rename(&part, &elsewhere).expect("moved");
    symlink(&elsewhere, &part).expect("linked");
    let ended = run(&mut finalize(&scratch.out())).with_code(1);
    let report = report(&ended);
    assert_eq!(report["archive"]["processes"], 1, "{ended}");
    let reason = report["parts"][1]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("symbolic link"), "{ended}");
    assert!(!elsewhere.join("done").exists() && elsewhere.join("journal").exists());
}

const SCRIPT: &str = "
    init c ranks=1 rank=0
    expect-mask 0
    start g GroupApi
    stop g
    finalize c
";

/// What nobody has put into a directory like /tmp is not written to.
#[test]
fn what_others_have_put_in_the_way_is_refused() {
    if !is_root() {
        return;
    }
    type Plant = fn(&Path, &Path);
    let foreign_directory: Plant = |out, _| {
        fs::create_dir_all(out.join("parts")).expect("made");
        give_to_nobody(out);
    };
    let foreign_link: Plant = |out, elsewhere| {
        symlink(elsewhere, out).expect("made");
        std::os::unix::fs::lchown(out, Some(NOBODY), Some(NOBODY)).expect("root may");
    };
    let link_in_the_way: Plant = |out, elsewhere| {
        fs::create_dir(out).expect("made");
        symlink(elsewhere, out.join("parts")).expect("made");
        std::os::unix::fs::lchown(out.join("parts"), Some(NOBODY), Some(NOBODY)).expect("root may");
    };
    let link_above: Plant = |out, elsewhere| {
        let shared = out.parent().expect("a directory");
        fs::remove_dir(shared).expect("it was empty");
        fs::set_permissions(shared.parent().expect("a directory"), fs::Permissions::from_mode(0o1777)).expect("set");
        symlink(elsewhere, shared).expect("made");
        std::os::unix::fs::lchown(shared, Some(NOBODY), Some(NOBODY)).expect("root may");
    };
    for plant in [foreign_directory, foreign_link, link_in_the_way, link_above] {
        let scratch = Scratch::new();
        let shared = scratch.path().join("shared");
        fs::create_dir(&shared).expect("made");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("set");
        let elsewhere = scratch.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("made");
        let out = shared.join("out");
        plant(&out, &elsewhere);
        let mut command = scratch.script(SCRIPT);
        command.env("NCCL_OTF2_DIR", &out);
        let ended = run(&mut command).undisturbed(&["nothing is recorded"]);
        let line = ended.our_lines()[0];
        assert!(line.contains("/shared") && line.contains("another user"), "{ended}");
        assert_eq!(fs::read_dir(&elsewhere).expect("there").count(), 0, "{ended}");
    }
}
