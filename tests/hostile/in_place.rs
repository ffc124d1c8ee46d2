//! An archive replaces an earlier one of the same processes, and nothing else.

use std::fs;

use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

const JOB: &str = "init c\nstart g Group ctx=c\nstop g\nfinalize c";

#[test]
fn a_users_folder_of_that_name_stays() {
    let scratch = Scratch::new();
    let own = scratch.out().join("traces/mine");
    fs::create_dir_all(own.parent().expect("a directory")).expect("made");
    fs::write(&own, "precious").expect("written");
    let ended = run(&mut scratch.script(JOB)).with_code(0);
    assert!(ended.stderr.contains("does not belong to an archive"), "{ended}");
    assert_eq!(fs::read_to_string(&own).expect("still there"), "precious");
    let forced = run(scratch.tool(&["run", "--force", "-o"]).arg(scratch.out()).args(["--", "true"])).with_code(2);
    assert!(forced.stderr.contains("does not belong to an archive"), "{forced}");
    fs::rename(scratch.out().join("traces"), scratch.path().join("mine")).expect("renamed");
    scratch.finalize().with_code(0);
}

#[test]
fn an_archive_whose_parts_are_gone_stays() {
    let scratch = Scratch::new();
    let _ended = run(&mut scratch.script(JOB)).with_code(0);
    let anchor = scratch.out().join("traces.otf2");
    let before = fs::read(&anchor).expect("an archive");
    fs::remove_dir_all(scratch.out().join("parts")).expect("removed");
    fs::remove_file(scratch.out().join("job")).expect("removed");
    let ended = run(&mut scratch.script(JOB)).with_code(0);
    assert!(ended.stderr.contains("parts are gone"), "{ended}");
    assert_eq!(fs::read(&anchor).expect("still there"), before);
    let shown = run(scratch.tool(&["report", "-o"]).arg(&anchor).arg(scratch.out())).with_code(2);
    assert!(shown.stderr.contains("is a file of an archive"), "{shown}");
    assert_eq!(fs::read(&anchor).expect("still there"), before);
}
